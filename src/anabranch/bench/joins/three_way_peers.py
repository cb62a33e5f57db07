"""The three-way window join on other engines: equal keys, any two rows within the window of each other."""

from __future__ import annotations

import time
from pathlib import Path

import duckdb
from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from anabranch.bench.engine_run import EngineRun, Skipped
from anabranch.bench.native_conf import native_conf
from anabranch.bench.peers import batch_times, count_parquet_rows
from anabranch.workloads.uniform import StreamFiles, Workload


def duckdb_three_way_join(workload: Workload, *, window_us: int, scratch: Path) -> EngineRun:
    """Run the whole join as one DuckDB query, files in, files out."""
    scratch.mkdir(parents=True, exist_ok=True)
    names = [s.name for s in workload.streams]
    tables = [f"read_parquet('{s.path}/*.parquet') {s.name}" for s in workload.streams]
    text = tables[0]
    for number, (name, table) in enumerate(zip(names[1:], tables[1:], strict=True), start=1):
        near = " AND ".join(
            f"epoch_us({other}.ts) - epoch_us({name}.ts) BETWEEN -{window_us} AND {window_us}"
            for other in names[:number]
        )
        text += f" JOIN {table} ON {names[0]}.k = {name}.k AND {near}"
    ids = ", ".join(f"{name}.id AS {name}_id" for name in names)
    with duckdb.connect() as connection:
        began = time.perf_counter()
        connection.execute(
            f"COPY (SELECT {names[0]}.k, {ids} FROM {text}) TO '{scratch / 'out.parquet'}' (FORMAT parquet)"
        )
        seconds = time.perf_counter() - began
    return EngineRun("DuckDB, one batch query", seconds, workload.rows, count_parquet_rows(scratch))


def spark_three_way_join(
    spark: SparkSession, workload: Workload, *, window_us: int, scratch: Path
) -> EngineRun | Skipped:
    """Run two of Spark's stream-stream joins, one on top of the other."""
    name = "Spark stream-stream joins, default state"
    first, *others = workload.streams
    joined = _watermarked(spark, first, workload.disorder_us)
    names = [first.name]
    for stream in others:
        condition = F.col(f"{first.name}_k") == F.col(f"{stream.name}_k")
        for other in names:
            condition = condition & _near(other, stream.name, window_us)
        joined = joined.join(_watermarked(spark, stream, workload.disorder_us), condition)
        # Spark takes one event-time column per stream: the others become plain timestamps.
        plain = F.timestamp_micros(F.unix_micros(f"{stream.name}_ts"))
        joined = joined.withColumn(f"{stream.name}_ts", plain)
        names.append(stream.name)
    ids = [F.col(f"{s.name}_id") for s in workload.streams]
    began = time.perf_counter()
    try:
        with native_conf(spark):
            writer = joined.select(F.col(f"{first.name}_k").alias("k"), *ids).writeStream.format("parquet")
            writer = writer.option("checkpointLocation", str(scratch / "checkpoint"))
            query = writer.trigger(availableNow=True).start(str(scratch / "out"))
            query.awaitTermination()
    except PySparkException as error:
        return Skipped(name, f"Spark cannot: {str(error).splitlines()[0]}")
    seconds = time.perf_counter() - began
    batches = batch_times(query)
    return EngineRun(
        name, seconds, sum(t.rows for t in batches), count_parquet_rows(scratch / "out"), batches
    )


def _watermarked(spark: SparkSession, stream: StreamFiles, lateness_us: int) -> DataFrame:
    frame = spark.readStream.schema(stream.ddl).option("maxFilesPerTrigger", 1).parquet(str(stream.path))
    # As in the two-way join: Spark counts a row at the watermark as late.
    marked = frame.withWatermark("ts", f"{lateness_us + 1000} microseconds")
    return marked.select(*(F.col(c).alias(f"{stream.name}_{c}") for c in ("id", "k", "ts")))


def _near(one: str, other: str, window_us: int) -> Column:
    window = F.expr(f"INTERVAL '{window_us / 1e6:.6f}' SECOND")
    return (F.col(f"{one}_ts") >= F.col(f"{other}_ts") - window) & (
        F.col(f"{one}_ts") <= F.col(f"{other}_ts") + window
    )
