"""The demo's two-way query as Spark's own stream-stream join."""

from __future__ import annotations

import time
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from anabranch.bench.engine_run import EngineRun
from anabranch.bench.native_conf import native_conf
from anabranch.bench.peers import batch_times, count_parquet_rows
from anabranch.workloads.uniform import Workload


def spark_auction_join(
    spark: SparkSession, workload: Workload, *, auction_window: str, bid_window: str, scratch: Path
) -> EngineRun:
    """Bids above the reserve of their auction, with windows as in `CREATE QUERY`, into `scratch/out`."""
    auctions = _watermarked(spark, workload, "auctions").alias("a")
    bids = _watermarked(spark, workload, "bids").alias("b")
    joined = auctions.join(
        bids,
        (F.col("a.id") == F.col("b.auction"))
        & (F.col("b.price") > F.col("a.reserve"))
        & (F.col("b.ts") <= F.col("a.ts") + F.expr(f"INTERVAL {auction_window}"))
        & (F.col("a.ts") <= F.col("b.ts") + F.expr(f"INTERVAL {bid_window}")),
    )
    result = joined.select("a.id", "a.item", "a.reserve", "b.bidder", "b.price")
    with native_conf(spark):
        began = time.perf_counter()
        writer = result.writeStream.format("parquet")
        writer = writer.option("checkpointLocation", str(scratch / "checkpoint"))
        query = writer.trigger(availableNow=True).start(str(scratch / "out"))
        query.awaitTermination()
        seconds = time.perf_counter() - began
    batches = batch_times(query)
    rows = sum(t.rows for t in batches)
    return EngineRun("Spark", seconds, rows, count_parquet_rows(scratch / "out"), batches)


def _watermarked(spark: SparkSession, workload: Workload, name: str) -> DataFrame:
    stream = workload[name]
    frame = spark.readStream.schema(stream.ddl).option("maxFilesPerTrigger", 1).parquet(str(stream.path))
    # Spark counts a row at the watermark as late and keeps watermarks in milliseconds: one more of these.
    return frame.withWatermark("ts", f"{workload.disorder_us + 1000} microseconds")
