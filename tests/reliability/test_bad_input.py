"""Bad sources, drifting files, damaged checkpoints on Spark: a clear error, and exact after the repair."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import anabranch as ab
from anabranch.errors import AnabranchError, ConfigError, RunError
from anabranch.language.flow import parse_flow
from anabranch.state import CorruptionError, PosixStorage, newest
from anabranch.testing.oracle_compare import assert_same_rows
from anabranch.workloads.stream_files import START_US
from tests.support.spark_cluster import wait_until

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

SCHEMA = pa.schema(
    [("id", pa.int64()), ("n", pa.int32()), ("v", pa.float64()), ("ts", pa.timestamp("us", tz="UTC"))]
)
DDL = "id BIGINT, n INT, v DOUBLE, ts TIMESTAMP"
ROWS = 6


def rows_of(batch: int) -> pa.Table:
    ids = [batch * ROWS + i for i in range(ROWS)]
    times = pa.array([START_US + n * 1000 for n in ids], pa.int64()).cast(pa.timestamp("us", tz="UTC"))
    return pa.table({"id": ids, "n": ids, "v": [n / 2 for n in ids], "ts": times}, schema=SCHEMA)


@dataclass(frozen=True)
class Place:
    """One stream of files, a query that takes everything and one that keeps state."""

    root: Path

    def put(self, batch: int, table: pa.Table) -> Path:
        path = self.root / "in" / f"{batch}.parquet"
        path.parent.mkdir(exist_ok=True)
        hidden = path.with_name(f".{path.name}")
        pq.write_table(table, hidden)
        os.utime(hidden, (batch + 1, batch + 1))
        hidden.rename(path)
        return path

    def text(self, *, source: str = "parquet", path: str = "") -> str:
        return f"""
        SET sites = 2; SET slots = 2;
        CREATE STREAM s ({DDL}) FROM {source} '{path or self.root / "in"}' OPTIONS (maxFilesPerTrigger = 1)
          TIME ts LATENESS 1 SECOND;
        CREATE QUERY everything INTO parquet '{self.root / "everything"}' AS SELECT id, n, v, ts FROM s;
        CREATE QUERY twins INTO parquet '{self.root / "twins"}' AS
          SELECT l.id AS l, r.id AS r FROM s [RANGE 1 HOUR] AS l, s [RANGE 1 HOUR] AS r WHERE l.id = r.id;
        """

    def run(self, spark: SparkSession, text: str = "") -> ab.Run:
        session = ab.Session(spark, self.root / "ck")
        session.load(parse_flow(text or self.text()))
        run = session.start(availableNow=True)
        try:
            run.awaitTermination()
        finally:
            run.stop()
        return run

    def committed(self) -> int:
        manifest = newest(PosixStorage(self.root / "ck"))
        return -1 if manifest is None else manifest.batch

    def assert_exact(self, *tables: pa.Table) -> None:
        rows = pa.concat_tables(tables)
        assert_same_rows(self.root / "everything", rows)
        assert_same_rows(self.root / "twins", pa.table({"l": rows.column("id"), "r": rows.column("id")}))


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


@pytest.mark.parametrize(
    ("source", "path"), [("nosuchformat", ""), ("parquet", "/nonexistent/folder")], ids=["format", "path"]
)
def test_an_unknown_source_is_refused_before_anything_runs(
    place: Place, spark: SparkSession, source: str, path: str
) -> None:
    place.put(0, rows_of(0))
    with pytest.raises(AnabranchError, match=r"nosuchformat|nonexistent") as refused:
        place.run(spark, place.text(source=source, path=path))
    assert "\n\tat " not in str(refused.value)  # no Java stack trace
    assert place.committed() == -1
    place.run(spark)
    place.assert_exact(rows_of(0))


def test_a_dataframe_without_the_time_column_is_refused_with_the_columns_it_has(
    place: Place, spark: SparkSession
) -> None:
    place.put(0, rows_of(0))
    frame = spark.readStream.schema(DDL).parquet(str(place.root / "in"))
    session = ab.Session(spark, place.root / "ck")
    with pytest.raises(ConfigError, match="no column 'when': choose from id, n, v, ts"):
        session.stream("s", frame, time="when")
    with pytest.raises(ConfigError, match="not streaming"):
        session.stream("s", spark.range(3), time="id")


def _renamed(table: pa.Table) -> pa.Table:
    return table.rename_columns(["id", "n", "value", "ts"])


BOUND_BY_NAME: dict[str, tuple[Callable[[pa.Table], pa.Table], Callable[[pa.Table], pa.Table]]] = {
    "added": (lambda t: t.append_column("extra", pa.array(["x"] * ROWS)), lambda t: t),
    "reordered": (lambda t: t.select(["ts", "v", "id", "n"]), lambda t: t),
    "dropped": (
        lambda t: t.drop_columns(["v"]),
        lambda t: t.set_column(2, "v", pa.nulls(ROWS, pa.float64())),
    ),
    "renamed": (_renamed, lambda t: t.set_column(2, "v", pa.nulls(ROWS, pa.float64()))),
    "widened in the declaration": (
        lambda t: t.set_column(0, "id", t.column("id").cast(pa.int32())),
        lambda t: t,
    ),
}


def test_files_whose_columns_were_added_dropped_renamed_or_moved_are_bound_by_name(
    place: Place, spark: SparkSession
) -> None:
    right = [rows_of(0)]
    place.put(0, rows_of(0))
    for batch, (drift, means) in enumerate(BOUND_BY_NAME.values(), start=1):
        place.put(batch, drift(rows_of(batch)))
        right.append(means(rows_of(batch)))
    place.run(spark)
    place.assert_exact(*right)


UNREADABLE: dict[str, tuple[Callable[[pa.Table], pa.Table] | None, str]] = {
    "narrowed": (
        lambda t: t.set_column(1, "n", t.column("n").cast(pa.int64())),
        "another type|cannot be read",
    ),
    "text": (lambda t: t.set_column(2, "v", t.column("v").cast(pa.string())), "another type|cannot be read"),
    "truncated": (None, r"1\.parquet.* cannot be read"),
}


@pytest.mark.parametrize("kind", UNREADABLE)
def test_a_file_that_cannot_be_read_stops_the_run_and_after_its_repair_nothing_is_missing(
    kind: str, place: Place, spark: SparkSession
) -> None:
    drift, message = UNREADABLE[kind]
    place.put(0, rows_of(0))
    path = place.put(1, drift(rows_of(1)) if drift else rows_of(1))
    if drift is None:
        os.truncate(path, path.stat().st_size // 2)
        os.utime(path, (2, 2))
    place.put(2, rows_of(2))
    with pytest.raises(RunError, match=message) as failed:
        place.run(spark)
    assert "1.parquet" in str(failed.value)
    assert "start again" in str(failed.value)
    assert place.committed() == 0
    place.assert_exact(rows_of(0))
    place.put(1, rows_of(1))  # repaired, under its name
    place.run(spark)
    place.assert_exact(*(rows_of(n) for n in range(3)))


def test_damage_to_a_block_or_the_manifest_is_named_and_the_restored_file_continues(
    place: Place, spark: SparkSession
) -> None:
    place.put(0, rows_of(0))
    place.run(spark)
    place.put(1, rows_of(1))
    ck = place.root / "ck"
    block = max((ck / "blocks").iterdir(), key=lambda p: p.stat().st_size)
    for path in (block, ck / "manifests" / "0000000000.0000.json"):
        data = path.read_bytes()
        path.write_bytes(bytes([data[0], *data[1:-9], data[-9] ^ 1, *data[-8:]]))
        with pytest.raises(CorruptionError, match=path.name.replace(".", r"\.")):
            place.run(spark)
        path.write_bytes(data)
        assert place.committed() == 0
    place.run(spark)
    place.assert_exact(rows_of(0), rows_of(1))


def test_a_damaged_checkpoint_of_spark_is_an_error_that_names_it(place: Place, spark: SparkSession) -> None:
    place.put(0, rows_of(0))
    place.run(spark)
    place.put(1, rows_of(1))
    for name in ("offsets/0", "metadata"):
        path = place.root / "ck" / "spark" / name
        data = path.read_bytes()
        crc = path.with_name(f".{path.name}.crc")
        kept = crc.read_bytes() if crc.exists() else None
        crc.unlink(missing_ok=True)  # else Hadoop repairs nothing but says it better
        path.write_bytes(b"garbage")
        with pytest.raises(AnabranchError, match=r"spark|Spark"):
            place.run(spark)
        path.write_bytes(data)
        if kept is not None:
            crc.write_bytes(kept)
        assert place.committed() == 0
    place.run(spark)
    place.assert_exact(rows_of(0), rows_of(1))


def test_a_folder_of_the_checkpoint_that_became_a_file_is_named(place: Place, spark: SparkSession) -> None:
    place.put(0, rows_of(0))
    place.run(spark)
    place.put(1, rows_of(1))
    staged = place.root / "ck" / "staged"
    staged.rename(place.root / "kept")
    staged.touch()
    with pytest.raises(AnabranchError, match="staged"):
        place.run(spark)
    staged.unlink()
    (place.root / "kept").rename(staged)
    place.run(spark)
    place.assert_exact(rows_of(0), rows_of(1))


def test_a_run_that_was_stopped_has_no_failure_and_can_be_continued(
    place: Place, spark: SparkSession
) -> None:
    for batch in range(4):
        place.put(batch, rows_of(batch))
    session = ab.Session(spark, place.root / "ck")
    session.load(parse_flow(place.text()))
    run = session.start(processingTime="0 seconds")
    wait_until(lambda: run.lastProgress, "the first batch", timeout=120)
    run.stop()
    assert not run.isActive
    assert run.exception() is None
    place.run(spark)
    place.assert_exact(*(rows_of(n) for n in range(4)))


def test_state_errors_are_also_seen_by_those_who_only_ask_for_the_exception(
    place: Place, spark: SparkSession
) -> None:
    place.put(0, rows_of(0))
    place.run(spark)
    place.put(1, rows_of(1))
    block = next((place.root / "ck" / "blocks").iterdir())
    data = block.read_bytes()
    block.write_bytes(data[:-1])
    session = ab.Session(spark, place.root / "ck")
    session.load(parse_flow(place.text()))
    run = session.start(availableNow=True)
    wait_until(lambda: not run.isActive, "the end of the run", timeout=120)
    assert isinstance(run.exception(), CorruptionError)
    block.write_bytes(data)
    place.run(spark)  # the failed run has let go of the lock
    place.assert_exact(rows_of(0), rows_of(1))
