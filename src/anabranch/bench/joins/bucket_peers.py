"""Bands and hot keys on Spark's own stream-stream join, as its users do today, beside ours on the same files.

A band has no equality: users cut the values into buckets as wide as the band, copy the rows of one stream
into the buckets on both sides, join by bucket, and filter. A hot key they can only leave in its one task.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from anabranch.bench.engine_run import EngineRun
from anabranch.bench.joins.anabranch_join import add_streams
from anabranch.bench.joins.band import BATCH_US as BAND_BATCH_US
from anabranch.bench.joins.band import band_batches, band_query, band_width
from anabranch.bench.native_conf import native_conf
from anabranch.bench.peers import batch_times, count_parquet_rows, watermarked
from anabranch.bench.same_results import difference
from anabranch.engine.sinks.parquet_sink import ParquetSink
from anabranch.spark.session import Session
from anabranch.workloads.hot_key import BATCH_US, NEAR, WINDOW_BATCHES, HotKeyStreams, hot_key_text
from anabranch.workloads.stream_files import Workload, write_stream

Joined = Callable[[DataFrame, DataFrame], DataFrame]
"""Spark's own join of two streams."""
EDGE = 1.001
"""How much wider than the band buckets are, so that rounding puts no pair two buckets apart."""
_UTC = pa.timestamp("us", tz="UTC")


@dataclass(frozen=True, slots=True)
class BesideSpark:
    """The same join over the same files; both on Spark, from files to files."""

    rows: int
    """Per stream and batch."""
    ours: EngineRun
    spark: EngineRun

    @property
    def ratio(self) -> float:
        """Rows a second ÷ those of Spark's own join, without the first batches."""
        return self.ours.steady_rows_per_second / self.spark.steady_rows_per_second


def band_beside_spark(
    spark: SparkSession, scratch: Path, *, rows: int = 20_000, window_batches: int = 5, batches: int = 5
) -> BesideSpark:
    """A band join; the band is so narrow that rows have as many matches with any number of rows."""
    width = band_width(rows, window_batches)
    bucket, window = EDGE * width, window_batches * BAND_BATCH_US

    def joined(a: DataFrame, b: DataFrame) -> DataFrame:
        here = F.floor(F.col("x") / bucket)
        a = a.withColumn("bucket", F.explode(F.array(here - 1, here, here + 1)))
        b = b.withColumn("bucket", here)
        near = F.abs(F.col("a.x") - F.col("b.x")) <= width
        return a.alias("a").join(b.alias("b"), _same("bucket") & near & _in_window(window))

    files = _files(scratch / "in", band_batches(rows, window_batches + batches))
    return _beside(spark, scratch, files, band_query(rows, window_batches), joined, rows)


def hot_key_beside_spark(
    spark: SparkSession, scratch: Path, *, rows: int = 3_000, batches: int = 5
) -> BesideSpark:
    """A join of two streams in which one key has half of the rows."""

    def joined(a: DataFrame, b: DataFrame) -> DataFrame:
        near = F.abs(F.col("a.x") - F.col("b.x")) <= NEAR
        in_window = _in_window(WINDOW_BATCHES * BATCH_US)
        return a.alias("a").join(b.alias("b"), _same("k") & near & in_window)

    files = _files(scratch / "in", HotKeyStreams(rows, 2).batches(WINDOW_BATCHES + batches))
    return _beside(spark, scratch, files, hot_key_text(2), joined, rows)


def _beside(
    spark: SparkSession, scratch: Path, files: Workload, query: str, joined: Joined, rows: int
) -> BesideSpark:
    """Run both; raises if their results differ."""
    ours = _anabranch(spark, files, query, scratch / "ours")
    theirs = _spark(spark, files, joined, scratch / "spark")
    if differs := difference(scratch / "ours" / "out", scratch / "spark" / "out", ("a", "b")):
        raise AssertionError(differs)
    return BesideSpark(rows, ours, theirs)


def _anabranch(spark: SparkSession, files: Workload, query: str, scratch: Path) -> EngineRun:
    began = time.perf_counter()
    with native_conf(spark):  # keeps all progress
        session = Session(spark, scratch / "checkpoint", quota_pairs=1 << 40)
        add_streams(session, spark, files)
        session.query("pairs", query, ParquetSink(scratch / "out"))
        run = session.start(availableNow=True)
        run.awaitTermination()
    seconds, batches = time.perf_counter() - began, batch_times(run.streamingQuery)
    return EngineRun("Anabranch", seconds, files.rows, count_parquet_rows(scratch / "out"), batches)


def _spark(spark: SparkSession, files: Workload, joined: Joined, scratch: Path) -> EngineRun:
    began = time.perf_counter()
    with native_conf(spark):
        pairs = joined(*(watermarked(spark, stream, files.disorder_us) for stream in files.streams))
        writer = pairs.select(F.col("a.id").alias("a"), F.col("b.id").alias("b")).writeStream
        writer = writer.format("parquet").option("checkpointLocation", str(scratch / "checkpoint"))
        query = writer.trigger(availableNow=True).start(str(scratch / "out"))
        query.awaitTermination()
    seconds, batches = time.perf_counter() - began, batch_times(query)
    return EngineRun("Spark's own join", seconds, files.rows, count_parquet_rows(scratch / "out"), batches)


def _same(column: str) -> Column:
    return F.col(f"a.{column}") == F.col(f"b.{column}")


def _in_window(window_us: int) -> Column:
    window = F.expr(f"INTERVAL '{window_us / 1e6:.6f}' SECOND")
    return (F.col("a.ts") >= F.col("b.ts") - window) & (F.col("a.ts") <= F.col("b.ts") + window)


def _files(root: Path, batches: Iterable[Mapping[str, pa.Table]]) -> Workload:
    tables = [{name: _with_utc(table) for name, table in batch.items()} for batch in batches]
    by_stream = {name: [batch[name] for batch in tables] for name in tables[0]}
    streams = (write_stream(root, name, len(its), its.__getitem__) for name, its in by_stream.items())
    return Workload(tuple(streams), len(tables), BATCH_US, 0)


def _with_utc(table: pa.Table) -> pa.Table:
    at = table.schema.get_field_index("ts")
    return table.set_column(at, "ts", table.column("ts").cast(pa.timestamp("us")).cast(_UTC))
