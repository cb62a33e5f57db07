"""The three-way window join on other engines: equal keys, any two rows within the window of each other."""

from __future__ import annotations

import time
from itertools import pairwise
from pathlib import Path

import duckdb
from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from anabranch.bench.engine_run import EngineRun, Skipped
from anabranch.bench.peers import batch_times, count_parquet_rows
from anabranch.testing.workloads import StreamFiles, Workload


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
    frames = [_watermarked(spark, s, workload.disorder_us) for s in workload.streams]
    joined = frames[0]
    for left, right in pairwise(range(len(frames))):
        near = [
            _near(workload.streams[i].name, workload.streams[right].name, window_us) for i in range(right)
        ]
        keys = F.col(f"{workload.streams[left].name}_k") == F.col(f"{workload.streams[right].name}_k")
        condition = keys
        for bound in near:
            condition = condition & bound
        joined = joined.join(frames[right], condition)
    first = workload.streams[0].name
    ids = [F.col(f"{s.name}_id") for s in workload.streams]
    began = time.perf_counter()
    try:
        writer = joined.select(F.col(f"{first}_k").alias("k"), *ids).writeStream.format("parquet")
        writer = writer.option("checkpointLocation", str(scratch / "checkpoint"))
        query = writer.trigger(availableNow=True).start(str(scratch / "out"))
        query.awaitTermination()
    except PySparkException as error:
        return Skipped(name, f"Spark refuses it: {str(error).splitlines()[0]}")
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
