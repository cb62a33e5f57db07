"""What hops cost in wall time: a chain at stations beside the same rows joined on a shared key, on Spark."""

from __future__ import annotations

import statistics
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import SparkSession

from anabranch.bench.adapting.station_scale import shared_key_query
from anabranch.bench.peers import batch_times
from anabranch.engine.sinks.parquet_sink import ParquetSink
from anabranch.spark.session import Session
from anabranch.workloads.chain import STREAMS, Chain

WARM_UP = 4
"""Batches that do not count: the JVM compiles, windows fill."""
SCHEMA = "id BIGINT, u BIGINT, v BIGINT, ts TIMESTAMP"


@dataclass(frozen=True, slots=True)
class HopWall:
    """Milliseconds of a batch, from its trigger to its commit: medians of the same batches."""

    rows: int
    chain_ms: float
    shared_ms: float

    @property
    def ratio(self) -> float:
        """What a chain takes beside a join on a key that all streams share."""
        return self.chain_ms / self.shared_ms


def run_hop_wall(
    spark: SparkSession, scratch: Path, *, rows: int = 100_000, sites: int = 4, batches: int = 16
) -> HopWall:
    """Run both on the same files, in turns; a first short run of each warms the JVM up."""
    chain = Chain(rows, rows)
    files = scratch / "in"
    for number, tables in enumerate(chain.batches(batches, lambda _: (1.0, 1.0))):
        _write(files, number, tables)
    texts = {"chain": chain.query().text, "shared": shared_key_query(chain).text}
    seen: dict[str, list[float]] = {name: [] for name in texts}
    for turn in range(2):
        for name, text in texts.items():
            seen[name] += _run(spark, scratch / f"{name}-{turn}", files, text, sites=sites)
    return HopWall(rows, *(statistics.median(seen[name]) for name in ("chain", "shared")))


def _write(files: Path, number: int, tables: Mapping[str, pa.Table]) -> None:
    for name, table in tables.items():
        folder = files / name
        folder.mkdir(parents=True, exist_ok=True)
        pq.write_table(table, folder / f"{number:05d}.parquet")


def _run(spark: SparkSession, scratch: Path, files: Path, text: str, *, sites: int) -> list[float]:
    spark.conf.set("spark.sql.streaming.numRecentProgressUpdates", "100000")
    settings = {"sites": sites, "ordering": "eddy" if "s.v" in text else "plan", "rebalance": "off"}
    session = Session(spark, scratch / "checkpoint", **settings)
    for stream in STREAMS:
        reader = spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1)
        session.stream(stream.name, reader.parquet(str(files / stream.name)), time="ts")
    session.query("chain", text, ParquetSink(scratch / "out"))
    run = session.start(availableNow=True)
    run.awaitTermination()
    return [b.milliseconds for b in batch_times(run.streamingQuery) if b.rows][WARM_UP:]
