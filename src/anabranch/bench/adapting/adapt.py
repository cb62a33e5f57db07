"""What adaptation costs when there is nothing to adapt, and how fast it answers when there is."""

from __future__ import annotations

import shutil
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from anabranch.adapt.events import Event
from anabranch.bench.engine_run import WARM_UP_BATCHES
from anabranch.bench.joins.anabranch_join import start_join
from anabranch.workloads.crowded import crowded_streams
from anabranch.workloads.uniform import Workload, three_streams

SITES = 8
BALANCED = 1.2
"""A site may be busier than the mean by this: the threshold below which Flux calls a load balanced."""
UNDONE_WITHIN = 10
"""Batches within which a move back counts as thrashing."""


@dataclass(frozen=True, slots=True)
class AdaptCost:
    """What the machinery costs and does.

    Attributes
    ----------
    on_ms, off_ms
        Median batch of a uniform three-way join with the policies on and off.
    on_busy_ms, off_busy_ms
        CPU time of all sites in such a batch.
    moving_ms, settled_ms
        Median batch in which a moved partition is at its new site for the first time, and of the others.
    batches_to_balance
        After each shift of the load: batches until the busiest site is within `BALANCED` of the mean.
    undone
        Moves back within `UNDONE_WITHIN` batches while the load was steady.
    """

    on_ms: float
    off_ms: float
    on_busy_ms: float
    off_busy_ms: float
    moving_ms: float
    settled_ms: float
    moves: int
    batches_to_balance: tuple[int, ...]
    undone: int

    @property
    def ratio(self) -> float:
        return self.on_ms / self.off_ms

    @property
    def busy_overhead(self) -> float:
        return self.on_busy_ms / self.off_busy_ms

    @property
    def moving(self) -> float:
        return self.moving_ms / self.settled_ms


def run_adapt(
    spark: SparkSession, scratch: Path, *, rows: int = 20_000, batches: int = 24, rounds: int = 4
) -> AdaptCost:
    """Take turns on a uniform load, each side first as often as the other, then follow a load that shifts."""
    uniform = three_streams(scratch / "uniform", batches=batches, rows_per_batch=rows)
    on: list[Mapping[str, Any]] = []
    off: list[Mapping[str, Any]] = []
    for setting in ("auto", "off"):  # the JVM compiles for longer than the first batches
        _run(spark, uniform, scratch / "warm-up", setting, window_batches=10)
    for number in range(rounds):
        turns = (("off", off), ("auto", on))
        for setting, progress in turns if number % 2 else turns[::-1]:
            found, _ = _run(spark, uniform, scratch / f"{setting}-{number}", setting, window_batches=10)
            progress += found[WARM_UP_BATCHES:]
    shift = 2 * batches // 3
    crowded = crowded_streams(
        scratch / "crowded", batches=2 * shift, rows_per_batch=5 * rows, shift_every=shift
    )
    progress, events = _run(spark, crowded, scratch / "moves", "auto", window_batches=5)
    moves = [(e.batch, e.data) for e in events if e.kind == "move_accepted"]
    moving = {batch + 1 for batch, _ in moves}
    numbered = [(p["batchId"], _batch_ms(p)) for p in progress[WARM_UP_BATCHES:]]
    return AdaptCost(
        statistics.median(map(_batch_ms, on)),
        statistics.median(map(_batch_ms, off)),
        statistics.median(map(_busy_ms, on)),
        statistics.median(map(_busy_ms, off)),
        statistics.median([ms for batch, ms in numbered if batch in moving] or [0.0]),
        statistics.median(ms for batch, ms in numbered if batch not in moving),
        len(moves),
        tuple(_until_balanced(progress[at : at + shift]) for at in (0, shift)),
        _undone(moves, shift),
    )


def _run(
    spark: SparkSession, work: Workload, scratch: Path, adapt: str, *, window_batches: int
) -> tuple[list[Mapping[str, Any]], Sequence[Event]]:
    run = start_join(
        spark,
        work,
        scratch,
        window_us=window_batches * work.interval_us,
        sites=SITES,
        rebalance=adapt,
        migration=adapt,
        skew_buffer_rows=0 if adapt == "off" else "auto",
    )
    run.awaitTermination()
    shutil.rmtree(scratch)
    return list(run.recentProgress), run.events


def _batch_ms(progress: Mapping[str, Any]) -> float:
    return float(progress["durationMs"]["triggerExecution"])


def _busy_ms(progress: Mapping[str, Any]) -> float:
    return float(sum(site["busyMs"] for site in progress["sites"]))


def _until_balanced(progress: Sequence[Mapping[str, Any]]) -> int:
    """Batches until the busiest site is no longer far above the mean; all of them if that never happens."""
    for number, batch in enumerate(progress):
        busy = [site["busyMs"] for site in batch["sites"]]
        if max(busy) <= BALANCED * sum(busy) / len(busy):
            return number
    return len(progress)


def _undone(moves: Sequence[tuple[int, Mapping[str, Any]]], shift: int) -> int:
    """Moves of a partition back to where it came from, soon and under the same load."""
    found = 0
    for i, (batch, move) in enumerate(moves):
        for earlier, other in moves[:i]:
            back = (other["partition"], other["source"], other["target"]) == (
                move["partition"],
                move["target"],
                move["source"],
            )
            found += back and batch - earlier <= UNDONE_WITHIN and batch // shift == earlier // shift
    return found
