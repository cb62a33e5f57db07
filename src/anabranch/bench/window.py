"""Tumbling windows beside Spark's own `groupBy(window)`: same files, same session, results verified."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import duckdb
import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from anabranch.bench.engine_run import EngineRun
from anabranch.bench.joins.anabranch_join import add_streams
from anabranch.bench.joins.join import JoinResult
from anabranch.bench.native_conf import native_conf
from anabranch.bench.peers import STATE_STORES, batch_times, count_parquet_rows, watermarked
from anabranch.engine.sinks.parquet_sink import ParquetSink
from anabranch.spark.session import Session
from anabranch.spark.start.conf import conf_set
from anabranch.testing.oracle_compare import compare_rows
from anabranch.workloads.uniform import Workload, uniform_streams

AGGREGATES = "COUNT(*) AS n, SUM(id) AS total, MIN(v) AS least, MAX(v) AS most"
"""All exact, so that results of different engines can be compared as they are."""


@dataclass(frozen=True, slots=True)
class WindowBench:
    """What to measure."""

    rows: int = 50_000
    """Rows per micro-batch."""
    keys: int = 10_000
    batches: int = 22
    window_batches: int = 5
    seed: int = 0
    warm_s: float = 60.0
    """For how long each engine runs the workload, again and again, before it counts."""

    @property
    def title(self) -> str:
        return (
            f"tumbling windows of {self.window_batches} batches, {self.rows:,} rows per batch, "
            f"{self.batches} batches, {self.keys:,} keys"
        )

    def workload(self, root: Path) -> Workload:
        """Write the files; rows are out of order by half a batch."""
        return uniform_streams(
            root,
            batches=self.batches,
            rows_per_batch=self.rows,
            key_space=self.keys,
            disorder_us=500_000,
            seed=self.seed,
            names=("a",),
        )


def run_window_bench(spark: SparkSession, bench: WindowBench, scratch: Path) -> Iterator[JoinResult]:
    """Run Anabranch, again with `plan_ahead`, then Spark with RocksDB state; DuckDB judges all.

    Windows that are still open when the input ends are told by neither or by one of the engines, as it
    happens: only those that end two batches before are compared.
    """
    workload = bench.workload(scratch / "in")
    window_us = bench.window_batches * workload.interval_us
    engines: dict[str, Callable[[], EngineRun]] = {
        "anabranch": lambda: _anabranch(spark, workload, window_us, scratch / "anabranch"),
        "ahead": lambda: _anabranch(spark, workload, window_us, scratch / "ahead", plan_ahead="true"),
        "spark": lambda: _spark(spark, workload, window_us, scratch / "spark"),
    }
    for name, engine in engines.items():
        began = time.perf_counter()
        while time.perf_counter() - began < bench.warm_s:
            engine()
            shutil.rmtree(scratch / name)
        outcome = engine()
        yield JoinResult(outcome, _difference(workload, window_us, scratch / name / "out"))


def _anabranch(
    spark: SparkSession, workload: Workload, window_us: int, scratch: Path, **settings: str
) -> EngineRun:
    spark.conf.set("spark.sql.streaming.numRecentProgressUpdates", "100000")
    began = time.perf_counter()
    session = Session(spark, scratch / "checkpoint", **settings)
    add_streams(session, spark, workload)
    text = (
        f"SELECT k, window.start, window.end, {AGGREGATES} FROM a "
        f"GROUP BY k, window(ts, '{window_us} microseconds')"
    )
    session.query("windows", text, ParquetSink(scratch / "out"))
    run = session.start(availableNow=True)
    run.awaitTermination()
    seconds = time.perf_counter() - began
    # Spark counts no rows of a batch that it does not wait for; we do.
    rows = {p.batch: p.input_rows for p in run.recentProgress if p.input_rows}
    batches = tuple(replace(t, rows=rows.get(t.batch, 0)) for t in batch_times(run.streamingQuery))
    name = ", ".join(["Anabranch", *settings])
    return EngineRun(name, seconds, sum(rows.values()), count_parquet_rows(scratch / "out"), batches)


def _spark(spark: SparkSession, workload: Workload, window_us: int, scratch: Path) -> EngineRun:
    rows = watermarked(spark, workload.streams[0], workload.disorder_us)
    grouped = rows.groupBy("k", F.window("ts", f"{window_us} microseconds"))
    result = grouped.agg(*map(F.expr, AGGREGATES.split(", "))).selectExpr(
        "k", "window.start AS start", "window.end AS end", "n", "total", "least", "most"
    )
    with native_conf(spark), conf_set(spark, STATE_STORES["rocksdb"]):
        began = time.perf_counter()
        writer = result.writeStream.format("parquet").outputMode("append")
        writer = writer.option("checkpointLocation", str(scratch / "checkpoint"))
        query = writer.trigger(availableNow=True).start(str(scratch / "out"))
        query.awaitTermination()
        seconds = time.perf_counter() - began
    batches = batch_times(query)
    name = "Spark groupBy(window), RocksDB state"
    return EngineRun(
        name, seconds, sum(t.rows for t in batches), count_parquet_rows(scratch / "out"), batches
    )


def _difference(workload: Workload, window_us: int, out: Path) -> str | None:
    """None when the windows of an engine that are surely over are DuckDB's."""
    with duckdb.connect() as connection:
        connection.execute("SET TimeZone = 'UTC'")
        files = f"read_parquet('{workload.streams[0].path}/*.parquet')"
        ((newest,),) = connection.execute(f"SELECT max(epoch_us(ts)) FROM {files}").fetchall()
        over = int(newest) - 2 * workload.interval_us - workload.disorder_us
        start = f"make_timestamp(epoch_us(ts) // {window_us} * {window_us})"
        aggregates = AGGREGATES.replace("SUM(id)", "SUM(id)::BIGINT")  # DuckDB sums in 128 bits
        judged = f"SELECT k, {start} AS start, {aggregates} FROM {files} GROUP BY ALL"
        found = f"SELECT k, start, n, total, least, most FROM read_parquet('{out}/*.parquet')"
        both: list[pa.Table] = [
            connection.sql(
                f"SELECT * FROM ({rows}) WHERE epoch_us(start) + {window_us} <= {over}"
            ).to_arrow_table()
            for rows in (found, judged)
        ]
    different = compare_rows(*both)
    return None if different.empty else different.describe("windows")
