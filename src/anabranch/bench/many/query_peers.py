"""Many rules without standing queries: a table of rules that Spark joins with, separate queries, DuckDB."""

from __future__ import annotations

import statistics
import time
from pathlib import Path

import duckdb
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.query import StreamingQuery

from anabranch.bench.many.queries import CpuClock, Measured
from anabranch.bench.peers import batch_times, count_parquet_rows, watermarked
from anabranch.spark.start.conf import conf_set
from anabranch.workloads.rules import column_choices, rule_values
from anabranch.workloads.stream_files import Workload

_NEWEST = "greatest(unix_micros(a.ts), unix_micros(b.ts))"


def rules_table(rules: int, *, window_us: int) -> pa.Table:
    """The rules as rows, as users of Spark or DuckDB would have them."""
    return pa.Table.from_pylist([rule_values(i, rules=rules, window_us=window_us) for i in range(rules)])


def spark_rules(
    spark: SparkSession, workload: Workload, scratch: Path, rules: int, *, window_us: int, warm_up: int
) -> Measured:
    """One streaming query of Spark: its window join, and then a join with the static table of rules."""
    pairs = _pairs(spark, workload, window_us)
    table = F.broadcast(spark.createDataFrame(rules_table(rules, window_us=window_us).to_pandas())).alias("r")
    inside = (
        "a.item = r.item AND a.price >= r.low AND a.price < r.high "
        f"AND {_NEWEST} - unix_micros(a.ts) <= r.a_us AND {_NEWEST} - unix_micros(b.ts) <= r.b_us"
    )
    x, y = (_chosen(i) for i in (0, 1))
    result = pairs.join(table, F.expr(inside)).selectExpr("r.query", f"{x} AS x", f"{y} AS y")
    return _run(spark, "Spark: its join ⋈ table of rules", [result], scratch, rules, warm_up)


def separate_queries(
    spark: SparkSession,
    workload: Workload,
    scratch: Path,
    rules: int,
    count: int,
    *,
    window_us: int,
    warm_up: int,
) -> Measured:
    """So many streaming queries of Spark, each the join of one rule."""
    frames = []
    for number in range(count):
        r = rule_values(number, rules=rules, window_us=window_us)
        mine = f"a.item = {r['item']} AND a.price >= {r['low']} AND a.price < {r['high']}"
        found = _pairs(spark, workload, window_us, only=mine)
        inside = (
            f"{_NEWEST} - unix_micros(a.ts) <= {r['a_us']} AND {_NEWEST} - unix_micros(b.ts) <= {r['b_us']}"
        )
        frames.append(found.where(inside).selectExpr(f"{r['x']} AS x", f"{r['y']} AS y"))
    return _run(spark, f"Spark: {count} queries, a rule each", frames, scratch, count, warm_up)


def duckdb_rules(workload: Workload, rules: int, *, window_us: int) -> Measured:
    """Everything as one query of DuckDB over all rows: rows ⋈ rows ⋈ rules."""
    a, b = (f"read_parquet('{stream.path}/*.parquet')" for stream in workload.streams)
    newest = "greatest(epoch_us(a.ts), epoch_us(b.ts))"
    with duckdb.connect(config={"threads": 2}) as connection:
        connection.register("r", rules_table(rules, window_us=window_us))
        began, began_cpu = time.perf_counter(), time.process_time()
        found = connection.execute(
            f"SELECT count(*), sum(length(query)) FROM {a} a JOIN {b} b ON a.k = b.k "
            f"AND abs(epoch_us(a.ts) - epoch_us(b.ts)) <= {window_us} "
            "JOIN r ON a.item = r.item AND a.price >= r.low AND a.price < r.high "
            f"AND {newest} - epoch_us(a.ts) <= r.a_us AND {newest} - epoch_us(b.ts) <= r.b_us"
        ).fetchone()
        seconds = time.perf_counter() - began
    assert found is not None
    per_batch_ms = seconds * 1000 / workload.batches
    what = "DuckDB: all rows ⋈ rules at once, nothing written"
    results = round(found[0] / workload.batches)
    cpu_ms = (time.process_time() - began_cpu) * 1000 / workload.batches
    return Measured(what, rules, results, per_batch_ms, cpu_ms, 0.0, workload.rows / seconds)


def _chosen(side: int) -> str:
    """The column that a rule selects."""
    cases = dict.fromkeys(choice[side] for choice in column_choices())
    name = "xy"[side]
    return "CASE " + " ".join(f"WHEN r.{name} = '{c}' THEN {c}" for c in cases) + " END"


def _pairs(spark: SparkSession, workload: Workload, window_us: int, only: str = "true") -> DataFrame:
    a, b = (watermarked(spark, stream, workload.disorder_us) for stream in workload.streams)
    window = F.expr(f"INTERVAL '{window_us / 1e6:.6f}' SECOND")
    near = (F.col("a.ts") >= F.col("b.ts") - window) & (F.col("a.ts") <= F.col("b.ts") + window)
    return a.alias("a").where(only).join(b.alias("b"), (F.col("a.k") == F.col("b.k")) & near)


def _run(
    spark: SparkSession, what: str, frames: list[DataFrame], scratch: Path, queries: int, warm_up: int
) -> Measured:
    settings = {
        "spark.sql.shuffle.partitions": str(spark.sparkContext.defaultParallelism),
        "spark.sql.streaming.numRecentProgressUpdates": "100000",
    }
    started: list[StreamingQuery] = []
    with conf_set(spark, settings):
        for number, frame in enumerate(frames):
            writer = frame.writeStream.format("parquet").trigger(availableNow=True)
            writer = writer.option("checkpointLocation", str(scratch / f"checkpoint{number}"))
            started.append(writer.start(str(scratch / f"out{number}")))
        clock = CpuClock()
        for query in started:
            while not query.awaitTermination(1):
                clock.look(len(batch_times(started[0])))
    steady = [[t for t in batch_times(query) if t.rows][warm_up:] for query in started]
    # They run side by side: a batch is over when the slowest of them is.
    ms = max(statistics.median(t.milliseconds for t in times) for times in steady)
    rows = statistics.median(t.rows for t in steady[0])
    batches = sum(1 for t in batch_times(started[0]) if t.rows)
    results = count_parquet_rows(scratch) / batches
    return Measured(what, queries, round(results), ms, *clock.batch_ms, rows / ms * 1000)
