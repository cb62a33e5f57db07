"""What a benchmark keeps of one engine's run: batch times, rows in, rows out."""

from __future__ import annotations

import statistics
from dataclasses import dataclass

WARM_UP_BATCHES = 3
"""Batches that do not count towards the steady state: the JVM compiles, Python workers start."""


@dataclass(frozen=True, slots=True)
class BatchTime:
    """One micro-batch, from its trigger to its commit."""

    batch: int
    milliseconds: float
    rows: int
    """Input rows, all streams together."""


@dataclass(frozen=True, slots=True)
class EngineRun:
    """One engine on one workload.

    Examples
    --------
    >>> times = tuple(BatchTime(n, 4000 if n == 0 else 500, 1000) for n in range(5))
    >>> run = EngineRun("engine", seconds=6.0, input_rows=5000, result_rows=70, batches=times)
    >>> round(run.rows_per_second), round(run.steady_rows_per_second), run.steady_batch_ms
    (833, 2000, 500.0)
    """

    engine: str
    seconds: float
    """Wall time of the whole run, start and first batch included."""
    input_rows: int
    result_rows: int
    batches: tuple[BatchTime, ...] = ()
    """Empty for an engine that runs the whole input as one query."""

    @property
    def rows_per_second(self) -> float:
        """Throughput of the whole run."""
        return self.input_rows / self.seconds

    @property
    def steady(self) -> tuple[BatchTime, ...]:
        """The batches after the warm-up, without those that got no file (clean-up at the end)."""
        return tuple(b for b in self.batches[WARM_UP_BATCHES:] if b.rows or self.input_rows == 0)

    @property
    def steady_rows_per_second(self) -> float:
        """Throughput after the warm-up; that of the whole run when there is no more than that."""
        steady = self.steady
        if not steady:
            return self.rows_per_second
        return sum(b.rows for b in steady) / (sum(b.milliseconds for b in steady) / 1000)

    @property
    def steady_batch_ms(self) -> float:
        """Median batch time after the warm-up, 0 if there is none."""
        return float(statistics.median(b.milliseconds for b in self.steady)) if self.steady else 0.0


@dataclass(frozen=True, slots=True)
class Skipped:
    """A peer that could not run, and why."""

    engine: str
    reason: str

    def __str__(self) -> str:
        return f"{self.engine}: skipped, {self.reason}"
