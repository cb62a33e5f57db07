"""Every kind of sink gets the same results, from one run on Spark."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame, SparkSession

import anabranch as ab
from anabranch.plan.logical import Column, Connector, Stream
from anabranch.testing.oracle_compare import assert_same_rows
from tests.spark.spark_sessions import write_batches

pytestmark = pytest.mark.spark

STREAM = Stream("s", (Column("k", "bigint"), Column("ts", "timestamp")), "ts")
TEXT = "SELECT a.k, b.k + 1 AS next FROM s [RANGE 1 SECOND] a, s [NOW] b WHERE a.k = b.k"


def batch(number: int) -> dict[str, pa.Table]:
    times = [1_700_000_000_000_000 + number * 1_000_000 + 1000 * i for i in range(20)]
    keys = [i % 4 for i in range(20)]
    return {"s": pa.table({"k": keys, "ts": pa.array(times).cast(pa.timestamp("us"))})}


def test_all_kinds_of_sinks_get_the_same_rows(
    spark: SparkSession, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    write_batches(tmp_path, [STREAM], [batch(n) for n in range(3)])
    seen: list[tuple[int, list[tuple[int, int]]]] = []

    def take(rows: DataFrame, batch_id: int) -> None:
        seen.append((batch_id, [(r.k, r.next) for r in rows.collect()]))

    shared: list[tuple[str, int, int]] = []

    def take_together(rows: DataFrame, batch_id: int) -> None:
        shared.extend((r.query, r.k, r.next) for r in rows.collect())

    session = ab.Session(spark, tmp_path / "checkpoint")
    reader = spark.readStream.schema("k bigint, ts timestamp").option("maxFilesPerTrigger", 1)
    session.stream("s", reader.parquet(str(tmp_path / "s")), time="ts")
    kept = ab.memory()
    sinks = {
        "in_memory": kept,
        "in_files": ab.parquet(tmp_path / "out"),
        "called": take,
        "written": Connector("json", str(tmp_path / "json")),
        "shown": ab.console(rows=2),
        "it's one": take_together,
        "another": take_together,
        "lines": Connector("json", str(tmp_path / "lines")),
        "more lines": Connector("json", str(tmp_path / "lines")),
    }
    for name, sink in sinks.items():
        session.query(name, TEXT, sink)
    session.start(availableNow=True).awaitTermination()

    expected = kept.table()
    assert expected.num_rows > 0
    assert_same_rows(pq.read_table(tmp_path / "out"), expected)
    assert [b for b, _ in seen] == [0, 1, 2]
    called = [row for _, rows in seen for row in rows]
    assert_same_rows(pa.table({"k": [k for k, _ in called], "next": [n for _, n in called]}), expected)
    written = spark.read.json(str(tmp_path / "json")).select("k", "next").toArrow()
    assert_same_rows(written, expected)
    for names, rows in (
        (
            ("it's one", "another"),
            pa.Table.from_pylist([{"query": q, "k": k, "next": n} for q, k, n in shared]),
        ),
        (("lines", "more lines"), spark.read.json(str(tmp_path / "lines")).toArrow()),
    ):
        for name in names:
            mine = rows.filter(pc.equal(rows.column("query"), name)).select(["k", "next"])
            assert_same_rows(mine, expected, what=name)
    assert "-- shown, batch 0" in capfd.readouterr().out


def test_a_sink_directory_can_be_read_before_the_first_result(spark: SparkSession, tmp_path: Path) -> None:
    write_batches(tmp_path, [STREAM], [batch(0)])
    session = ab.Session(spark, tmp_path / "checkpoint")
    session.stream(
        "s", spark.readStream.schema("k bigint, ts timestamp").parquet(str(tmp_path / "s")), time="ts"
    )
    session.query("none", "SELECT k FROM s WHERE k > 1000", ab.parquet(tmp_path / "out"))
    session.start(availableNow=True).awaitTermination()
    found = spark.read.parquet(str(tmp_path / "out"))
    assert (found.count(), found.columns) == (0, ["k"])
