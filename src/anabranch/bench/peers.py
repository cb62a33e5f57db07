"""The same window join on other engines, over the same files.

All of them give the pairs with `a.k = b.k` and `|a.ts - b.ts| <= window`, bounds included, and
write them as parquet.
"""

from __future__ import annotations

import importlib.util
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

import duckdb
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.query import StreamingQuery

from anabranch.bench.engine_run import BatchTime, EngineRun, Skipped
from anabranch.spark.start.conf import conf_set
from anabranch.workloads.uniform import StreamFiles, Workload

StateStore = Literal["default", "rocksdb"]

STATE_STORES: dict[StateStore, dict[str, str]] = {
    "default": {},
    "rocksdb": {
        "spark.sql.streaming.stateStore.providerClass": (
            "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
        )
    },
}


def spark_native_join(
    spark: SparkSession,
    workload: Workload,
    *,
    window_us: int,
    scratch: Path,
    state_store: StateStore = "default",
) -> EngineRun:
    """Run Spark's stream-stream join, one file per stream and trigger, into `scratch/out`.

    Spark gets as many shuffle partitions as cores: its default of 200 would make it several times slower.
    """
    a, b = (watermarked(spark, stream, workload.disorder_us) for stream in workload.streams)
    window = F.expr(f"INTERVAL '{window_us / 1e6:.6f}' SECOND")
    pairs = a.alias("a").join(
        b.alias("b"),
        (F.col("a.k") == F.col("b.k"))
        & (F.col("a.ts") >= F.col("b.ts") - window)
        & (F.col("a.ts") <= F.col("b.ts") + window),
    )
    result = pairs.select(F.col("a.k"), F.col("a.id").alias("a_id"), F.col("b.id").alias("b_id"))
    out = scratch / "out"
    settings = {
        "spark.sql.shuffle.partitions": str(spark.sparkContext.defaultParallelism),
        "spark.sql.streaming.numRecentProgressUpdates": "100000",
        **STATE_STORES[state_store],
    }
    with conf_set(spark, settings):
        began = time.perf_counter()
        writer = result.writeStream.format("parquet").option(
            "checkpointLocation", str(scratch / "checkpoint")
        )
        query = writer.trigger(availableNow=True).start(str(out))
        query.awaitTermination()
        seconds = time.perf_counter() - began
    name = "Spark stream-stream join" + (", RocksDB state" if state_store == "rocksdb" else ", default state")
    batches = batch_times(query)
    return EngineRun(name, seconds, sum(t.rows for t in batches), count_parquet_rows(out), batches)


def empty_foreach_batch(spark: SparkSession, streams: Sequence[StreamFiles], *, scratch: Path) -> EngineRun:
    """Run micro-batches whose function only counts its rows: what any engine on Spark pays per batch.

    Give it streams whose files hold no rows (`uniform_streams(rows_per_batch=0)`).
    """
    sources = [_file_stream(spark, stream) for stream in streams]
    union = sources[0]
    for source in sources[1:]:
        union = union.unionByName(source, allowMissingColumns=True)

    def count(batch: DataFrame, batch_id: int) -> None:
        batch.count()

    with conf_set(spark, {"spark.sql.streaming.numRecentProgressUpdates": "100000"}):
        began = time.perf_counter()
        writer = union.writeStream.foreachBatch(count)
        writer = writer.option("checkpointLocation", str(scratch / "checkpoint"))
        query = writer.trigger(availableNow=True).start()
        query.awaitTermination()
        seconds = time.perf_counter() - began
    batches = batch_times(query)
    return EngineRun("empty foreachBatch", seconds, sum(t.rows for t in batches), 0, batches)


def duckdb_batch_join(
    workload: Workload, *, window_us: int, scratch: Path, threads: int | None = None
) -> EngineRun:
    """Run the whole join as one DuckDB query, files in, files out: the limit to approach."""
    scratch.mkdir(parents=True, exist_ok=True)
    a, b = (f"read_parquet('{stream.path}/*.parquet')" for stream in workload.streams)
    out = scratch / "out.parquet"
    with duckdb.connect() as connection:
        if threads is not None:
            connection.execute(f"SET threads = {threads}")
        began = time.perf_counter()
        connection.execute(
            f"COPY (SELECT a.k, a.id AS a_id, b.id AS b_id FROM {a} a JOIN {b} b ON a.k = b.k"
            f" AND epoch_us(a.ts) - epoch_us(b.ts) BETWEEN -{window_us} AND {window_us})"
            f" TO '{out}' (FORMAT parquet)"
        )
        seconds = time.perf_counter() - began
    return EngineRun("DuckDB, one batch query", seconds, workload.rows, count_parquet_rows(scratch))


def polars_batch_join(workload: Workload, *, window_us: int, scratch: Path) -> EngineRun | Skipped:
    """Run the whole join as one Polars query, if Polars is installed."""
    name = "Polars, one batch query"
    if importlib.util.find_spec("polars") is None:
        return Skipped(name, "polars is not installed")
    import polars as pl

    scratch.mkdir(parents=True, exist_ok=True)
    a, b = (pl.scan_parquet(stream.path / "*.parquet") for stream in workload.streams)
    began = time.perf_counter()
    pairs = a.join(b, on="k", suffix="_b")
    apart = (pl.col("ts") - pl.col("ts_b")).dt.total_microseconds().abs()
    result = pairs.filter(apart <= window_us).select("k", a_id="id", b_id="id_b")
    result.sink_parquet(scratch / "out.parquet")
    seconds = time.perf_counter() - began
    return EngineRun(name, seconds, workload.rows, count_parquet_rows(scratch))


def flink_interval_join() -> Skipped:
    """Say why Flink does not take part."""
    installed = importlib.util.find_spec("pyflink") is not None
    reason = (
        "its interval join is not part of this benchmark yet" if installed else "PyFlink is not installed"
    )
    return Skipped("Flink SQL interval join", reason)


def batch_times(query: StreamingQuery) -> tuple[BatchTime, ...]:
    """The micro-batches of a finished query as Spark reports them, each once."""
    latest: dict[int, Any] = {progress["batchId"]: progress for progress in query.recentProgress}
    return tuple(
        BatchTime(batch, float(p["durationMs"].get("triggerExecution", 0)), int(p["numInputRows"]))
        for batch, p in sorted(latest.items())
        if "addBatch" in p["durationMs"]  # a trigger that found nothing to do is not a batch
    )


def count_parquet_rows(directory: Path) -> int:
    """Rows of all parquet files below a directory, read from their footers."""
    files = [str(path) for path in directory.rglob("*.parquet") if not path.name.startswith(".")]
    if not files:
        return 0
    row = duckdb.connect().execute("SELECT sum(num_rows) FROM parquet_file_metadata($1)", [files]).fetchone()
    return int(row[0]) if row else 0


def _file_stream(spark: SparkSession, stream: StreamFiles) -> DataFrame:
    return spark.readStream.schema(stream.ddl).option("maxFilesPerTrigger", 1).parquet(str(stream.path))


def watermarked(spark: SparkSession, stream: StreamFiles, lateness_us: int) -> DataFrame:
    """A file per trigger, with a watermark under which Spark and we call the same rows late."""
    # Spark counts a row at the watermark as late and keeps watermarks in milliseconds: one more of these.
    return _file_stream(spark, stream).withWatermark("ts", f"{lateness_us + 1000} microseconds")
