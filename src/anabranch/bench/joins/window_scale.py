"""Does a batch take longer when the state is ten times larger and the output is not?

Both runs read files of the same number and size. The wide one has a window `scale` times as long and
as many times more keys, so that a new row finds as many partners among `scale` times more rows.
"""

from __future__ import annotations

import statistics
from dataclasses import dataclass
from pathlib import Path

from pyspark.sql import SparkSession

from anabranch.bench.joins.anabranch_join import anabranch_join
from anabranch.spark.run import Run
from anabranch.workloads.uniform import KEYS_PER_ROW, KeyType, uniform_streams

MEASURED = 12
"""Batches at the end that count: the window has been full for a while."""


@dataclass(frozen=True, slots=True)
class WindowRun:
    """A run with one window length; medians over the last batches."""

    window_batches: int
    batch_ms: float
    """As Spark measures it: trigger to commit, with its own bookkeeping."""
    engine_ms: float
    """The part of it that is ours."""
    result_rows: float
    """Per batch."""
    state_rows: int


@dataclass(frozen=True, slots=True)
class WindowScale:
    narrow: WindowRun
    wide: WindowRun

    @property
    def ratio(self) -> float:
        """Batch time with the wide window ÷ with the narrow one."""
        return self.wide.batch_ms / self.narrow.batch_ms


def run_window_scale(
    spark: SparkSession,
    scratch: Path,
    *,
    rows: int = 50_000,
    window_batches: int = 10,
    scale: int = 10,
    keys: KeyType = "int",
    measured: int = MEASURED,
) -> WindowScale:
    """Run the join with a narrow and a wide window."""
    batches = window_batches * scale + measured

    def run(factor: int) -> WindowRun:
        root = scratch / f"window-{factor}"
        workload = uniform_streams(
            root / "in",
            batches=batches,
            rows_per_batch=rows,
            key_space=round(KEYS_PER_ROW * rows * factor),
            keys=keys,
        )
        seen: dict[int, dict[str, float]] = {}
        window = window_batches * factor
        result = anabranch_join(
            spark,
            workload,
            window_us=window * workload.interval_us,
            scratch=root,
            watch=lambda run: _remember(run, seen),
        )
        last = [b for b in result.batches if b.rows][-measured:]
        ours = [seen[b.batch] for b in last if b.batch in seen]
        return WindowRun(
            window_batches=window,
            batch_ms=statistics.median(b.milliseconds for b in last),
            engine_ms=statistics.median(p["engine_ms"] for p in ours) if ours else 0.0,
            result_rows=statistics.median(p["results"] for p in ours) if ours else 0.0,
            state_rows=int(max((p["state_rows"] for p in ours), default=0)),
        )

    return WindowScale(run(1), run(scale))


def _remember(run: Run, seen: dict[int, dict[str, float]]) -> None:
    for progress in run.recentProgress[-5:]:
        seen[progress["batchId"]] = {
            "engine_ms": progress["durationMs"].get("triggerExecution", 0.0),
            "results": sum(q["numOutputRows"] for q in progress["queries"].values()),
            "state_rows": progress["state"]["numRowsTotal"],
        }
