"""Malformed input: counted, and kept with its text and the reason; nothing of it reaches a query."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import anabranch as ab
from anabranch.engine.task.arrival.dead_letters import opened
from anabranch.language.flow import parse_flow
from anabranch.plan.logical import Column, Connector, Stream
from anabranch.spark.reading.malformed import keeps_raw

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

NOON = "2024-01-01T12:00:00Z"
JSON = {
    f'{{"k":1,"v":2.5,"ts":"{NOON}"}}': None,
    f'{{"k":2,"ts":"{NOON}"}}': None,  # a field may be missing
    f'{{"k":3,"v":1,"ts":"{NOON}","more":{{"a":1}}}}': None,  # or not declared
    f'{{"k":"x","v":1,"ts":"{NOON}"}}': "malformed json: k cannot be read as declared",
    f'{{"k":1.5,"v":"much","ts":"{NOON}"}}': "malformed json: k, v cannot be read as declared",
    '{"k":4,"v":1,"ts":"yesterday"}': "malformed json: ts cannot be read as declared",
    '{"k":5,"v":': "malformed json: no JSON object",
    "not json": "malformed json: no JSON object",
    '"text"': "malformed json: no JSON object",
    '{"k":6,"v":1}': "no usable event time",
}
CSV = {
    f"1,2.5,{NOON}": None,
    f"2,,{NOON}": None,
    f"x,1,{NOON}": "malformed csv: k cannot be read as declared",
    f"1,2.5,{NOON},9": "malformed csv: more values than columns",
    "1,2.5": "malformed csv: ts cannot be read as declared",
    '"unclosed,1': "malformed csv: k, v, ts cannot be read as declared",
    "1,2.5,yesterday": "malformed csv: ts cannot be read as declared",
    "7,1,": "no usable event time",
}


def flow(root: Path, kind: str, options: str = "") -> str:
    return f"""
    CREATE STREAM s (k BIGINT, v DOUBLE, ts TIMESTAMP) FROM {kind} '{root / "in"}' {options} TIME ts;
    CREATE QUERY plain INTO parquet '{root / "plain"}' AS SELECT k, v FROM s;
    CREATE QUERY pairs INTO parquet '{root / "pairs"}' AS
      SELECT a.k FROM s [RANGE 1 HOUR] a, s [RANGE 1 HOUR] b WHERE a.k = b.k;
    """


def run(spark: SparkSession, root: Path, kind: str, options: str = "") -> ab.Run:
    session = ab.Session(spark, root / "checkpoint", sites=2)
    session.load(parse_flow(flow(root, kind, options)))
    found = session.start(availableNow=True)
    found.awaitTermination()
    return found


def letters(root: Path) -> list[tuple[str, str]]:
    rows = pq.read_table(root / "checkpoint" / "dead_letters").to_pylist()
    return sorted((row["row"], row["reason"]) for row in rows)


@pytest.mark.spark
@pytest.mark.parametrize(("kind", "lines"), [("json", JSON), ("csv", CSV)], ids=["json", "csv"])
def test_every_malformed_line_is_counted_and_kept_with_its_text(
    spark: SparkSession, tmp_path: Path, kind: str, lines: dict[str, str | None]
) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / f"a.{kind}").write_text("\n".join(lines) + "\n\n")  # an empty line is none
    (tmp_path / "in" / f"nothing.{kind}").touch()
    ended = run(spark, tmp_path, kind)
    good = sum(reason is None for reason in lines.values())
    assert pq.read_table(tmp_path / "plain").num_rows == good
    assert pq.read_table(tmp_path / "pairs").num_rows == good
    told = ended.lastProgress["streams"]["s"]  # type: ignore[index]
    assert (told["accepted"], told["rejected"]) == (good, len(lines) - good)
    kept = letters(tmp_path)
    malformed = sorted((line, why) for line, why in lines.items() if why is not None and "malformed" in why)
    assert [letter for letter in kept if "malformed" in letter[1]] == malformed
    (timeless,) = (row for row, reason in kept if reason == "no usable event time")
    assert '"k":6' in timeless or '"k":7' in timeless
    (event,) = (e for e in ended.events if e.kind == "empty_files")
    assert event.data["files"] == [str(tmp_path / "in" / f"nothing.{kind}")]


@pytest.mark.spark
def test_bytes_that_are_no_text_are_kept(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.json").write_bytes(f'{{"k":1,"v":1,"ts":"{NOON}"}}\n'.encode() + b'\xff\xfe{"k":\n')
    run(spark, tmp_path, "json")
    ((row, reason),) = letters(tmp_path)
    assert row.endswith('{"k":')
    assert reason == "malformed json: no JSON object"


@pytest.mark.spark
def test_whoever_wants_malformed_records_dropped_has_them_dropped(
    spark: SparkSession, tmp_path: Path
) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.json").write_text("\n".join(JSON))
    ended = run(spark, tmp_path, "json", "OPTIONS (mode = 'DROPMALFORMED')")
    assert ended.lastProgress["streams"]["s"]["rejected"] == 1  # type: ignore[index]
    assert pq.read_table(tmp_path / "plain").num_rows == 3


def stream(kind: str, *options: tuple[str, str], column: str = "k") -> Stream:
    return Stream("s", (Column(column, "string"),), "ts", source=Connector(kind, "in", options))


@pytest.mark.parametrize(
    ("declared", "kept"),
    [
        (stream("JSON"), True),
        (stream("csv", ("mode", "Permissive")), True),
        (stream("csv", ("MODE", "failfast")), False),
        (stream("json", ("columnnameofcorruptrecord", "bad")), False),
        (stream("json", column="_Corrupt_Record"), False),
        (stream("parquet"), False),
        (Stream("s", (), "ts"), False),
    ],
)
def test_malformed_records_are_ours_unless_the_user_sees_to_them(declared: Stream, kept: bool) -> None:
    assert keeps_raw(declared) == kept


def test_letters_are_opened_by_reason_and_a_row_may_have_several_lines() -> None:
    sealed = pa.array(["why\nrow 1", "other\n", "why\nrow\n2"], pa.large_string())
    found = {reason: (at.tolist(), rows.to_pylist()) for reason, at, rows in opened(sealed)}
    assert found == {"why": ([0, 2], ["row 1", "row\n2"]), "other": ([1], [""])}
