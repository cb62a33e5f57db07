"""Ten queries with few rows on few and on many sites: a site costs what its rows cost."""

from __future__ import annotations

import statistics
from dataclasses import dataclass
from pathlib import Path

from pyspark.sql import SparkSession

from anabranch.bench.engine_run import WARM_UP_BATCHES
from anabranch.bench.joins.anabranch_join import add_streams, join_text
from anabranch.engine.sinks.parquet_sink import ParquetSink
from anabranch.spark.session import Session
from anabranch.workloads.uniform import Workload, uniform_streams

FEW, MANY = 8, 256
ROWS = 1_000
"""Per stream and batch; there are two streams."""


@dataclass(frozen=True, slots=True)
class ManySites:
    """Median batch with few and with many sites."""

    few_ms: float
    many_ms: float

    @property
    def ratio(self) -> float:
        return self.many_ms / self.few_ms


def run_many_sites(spark: SparkSession, scratch: Path, *, batches: int = 16) -> ManySites:
    """Run the same queries on both numbers of sites, after a run that warms the workers up."""
    work = uniform_streams(scratch / "in", batches=batches, rows_per_batch=ROWS)
    _run(spark, work, scratch / "warm-up", FEW)
    few, many = (_run(spark, work, scratch / str(sites), sites) for sites in (FEW, MANY))
    return ManySites(few, many)


def _run(spark: SparkSession, work: Workload, scratch: Path, sites: int) -> float:
    session = Session(spark, scratch / "checkpoint", sites=sites)
    add_streams(session, spark, work)
    for name, text in _texts(work).items():
        session.query(name, text, ParquetSink(scratch / name))
    run = session.start(availableNow=True)
    run.awaitTermination()
    batches = list(run.recentProgress)[WARM_UP_BATCHES:]
    return statistics.median(float(p["durationMs"]["triggerExecution"]) for p in batches)


def _texts(work: Workload) -> dict[str, str]:
    """Ten queries: filters, joins and counts, each with a state of its own."""
    joined = join_text(work, window_us=WARM_UP_BATCHES * work.interval_us)
    texts = {f"filter{i}": f"SELECT id, k FROM a WHERE v > 0.{i}" for i in range(3)}
    texts |= {f"join{i}": f"{joined} AND a.v > 0.{i}" for i in range(4)}
    return texts | {
        f"count{i}": f"SELECT k, COUNT(*) AS n FROM b [RANGE 1 SECOND] WHERE v > 0.{i} GROUP BY k"
        for i in range(3)
    }
