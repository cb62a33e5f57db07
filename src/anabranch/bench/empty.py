"""What the engine costs when there is nothing to do, beside a `foreachBatch` that only counts."""

from __future__ import annotations

import statistics
from dataclasses import dataclass
from pathlib import Path

from pyspark.sql import SparkSession

from anabranch.bench.engine_run import WARM_UP_BATCHES, EngineRun
from anabranch.bench.joins.anabranch_join import anabranch_join
from anabranch.bench.peers import empty_foreach_batch
from anabranch.workloads.uniform import uniform_streams


@dataclass(frozen=True, slots=True)
class EmptyBatches:
    """Median milliseconds of a micro-batch over files without rows."""

    engine_ms: float
    foreach_batch_ms: float
    batches: int
    """Batches that count, on each side."""

    @property
    def ratio(self) -> float:
        return self.engine_ms / self.foreach_batch_ms


def run_empty(spark: SparkSession, scratch: Path, *, batches: int = 23, rounds: int = 2) -> EmptyBatches:
    """Take turns, so that what else the machine does hits both alike."""
    workload = uniform_streams(scratch / "in", batches=batches, rows_per_batch=0)
    ours: list[float] = []
    theirs: list[float] = []
    for number in range(rounds):
        theirs += _steady(empty_foreach_batch(spark, workload.streams, scratch=scratch / f"foreach-{number}"))
        ours += _steady(
            anabranch_join(spark, workload, window_us=1_000_000, scratch=scratch / f"anabranch-{number}")
        )
    return EmptyBatches(statistics.median(ours), statistics.median(theirs), len(ours))


def _steady(run: EngineRun) -> list[float]:
    return [b.milliseconds for b in run.batches[WARM_UP_BATCHES:]]
