"""Memory of a Python worker when the state is large: 10 million rows by default."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from pathlib import Path

from pyspark.sql import SparkSession

from anabranch.bench.joins.anabranch_join import anabranch_join
from anabranch.bench.worker_memory import WorkerMemory, python_workers
from anabranch.spark.run import Run
from anabranch.workloads.uniform import uniform_streams

SAMPLE_SECONDS = 0.5
KEYS_PER_STATE_ROW = 4
"""Keys per row of the finished state: a row finds few partners, so that the state is what is measured."""


@dataclass(frozen=True, slots=True)
class StateMemory:
    """The largest worker while the state was at its largest."""

    state_rows: int
    state_bytes: int
    workers: int
    at_end: WorkerMemory
    """The worker with the largest resident set after the last batch."""
    peak_anonymous: int
    """Largest private memory of any worker at any sample."""
    peak_rss: int


def run_memory(
    spark: SparkSession, scratch: Path, *, rows: int = 10_000_000, batches: int = 20
) -> StateMemory:
    """Fill a state with `rows` rows of two streams, none of which expires, and watch the workers."""
    workload = uniform_streams(
        scratch / "in",
        batches=batches,
        rows_per_batch=rows // 2 // batches,
        key_space=rows * KEYS_PER_STATE_ROW,
    )
    sampler = _Sampler()
    anabranch_join(
        spark,
        workload,
        window_us=2 * batches * workload.interval_us,
        scratch=scratch,
        watch=sampler.sample,
    )
    return sampler.result()


class _Sampler:
    def __init__(self) -> None:
        self._next = 0.0
        self._state: dict[str, int] = {"numRowsTotal": 0, "memoryUsedBytes": 0}
        self._peak_anonymous = 0

    def sample(self, run: Run) -> None:
        if run.lastProgress is not None:
            self._state = run.lastProgress["state"]
        if time.monotonic() >= self._next:
            self._next = time.monotonic() + SAMPLE_SECONDS
            workers = python_workers(os.getpid())
            self._peak_anonymous = max([self._peak_anonymous, *(w.anonymous for w in workers)])

    def result(self) -> StateMemory:
        # Spark keeps workers for a minute after their last task.
        workers = python_workers(os.getpid())
        if not workers:
            raise RuntimeError("no Python worker of Spark is left to measure: run on a local master")
        return StateMemory(
            state_rows=self._state["numRowsTotal"],
            state_bytes=self._state["memoryUsedBytes"],
            workers=len(workers),
            at_end=workers[0],
            peak_anonymous=max(self._peak_anonymous, *(w.anonymous for w in workers)),
            peak_rss=max(w.peak_rss for w in workers),
        )
