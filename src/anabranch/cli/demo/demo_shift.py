"""The demo's last part: a join whose load shifts while it runs, with and without adaptation."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

from rich.console import Console

from anabranch.cli.figures import spark_line
from anabranch.errors import AnabranchError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from anabranch.adapt.events import Event
    from anabranch.workloads.uniform import Workload

SITES = 8
WINDOW = 4
"""Batches."""
SHOWN = ("rebalanced", "plan_changed")
"""Decisions that are shown; `anabranch explain --why` has them all."""


class WrongResults(AnabranchError):
    """The demo's results are not what they must be."""


@dataclass(frozen=True, slots=True)
class _Shifted:
    """One run: milliseconds of the busiest site by batch, what was decided, where the results are."""

    busiest_ms: list[float]
    events: Sequence[Event]
    out: Path
    checkpoint: Path

    @property
    def at_the_end_ms(self) -> float:
        return median(self.busiest_ms[-len(self.busiest_ms) // 4 :])


def show_shift(console: Console, spark: SparkSession, folder: Path, *, rows: int, batches: int) -> None:
    """Run the join twice and tell what adapting has changed, and what it has not."""
    from anabranch.bench.same_results import difference
    from anabranch.workloads.crowded import turning_streams

    turn = batches // 3
    console.print(
        f"\n[bold]6  And when the load shifts?[/] Three streams, {SITES} sites. At batch {turn} other keys\n"
        f"   become the busy ones; from batch {turn + WINDOW} on the join order of before is bad",
        highlight=False,
    )
    data = folder / "shift" / "in"
    work = turning_streams(data, batches=batches, rows_per_batch=rows, turn_at=turn, window=WINDOW)
    fixed = _run(
        spark, work, folder / "shift" / "fixed", rebalance="off", migration="off", skew_buffer_rows=0
    )
    adapting = _run(spark, work, folder / "shift" / "adapting")
    unequal = difference(adapting.out, fixed.out, ("k", "a_id", "b_id", "c_id"))
    if unequal is not None:
        raise WrongResults(unequal)
    top = max(fixed.busiest_ms[1:])
    for name, run in (("as started", fixed), ("adapting", adapting)):
        line = spark_line([*run.busiest_ms[1:], top])[:-1]
        told = f"   {name:<12}{line}  busiest site, {run.at_the_end_ms:.0f} ms in the end"
        console.print(told, highlight=False)
    _tell_decisions(console, adapting.events)
    ratio = fixed.at_the_end_ms / adapting.at_the_end_ms
    console.print(
        f"   In the end the busiest site has {ratio:.1f} times less to do; "
        "[green]the results are the same[/].\n"
        f"   anabranch explain {adapting.checkpoint} --why     every decision, with its numbers",
        highlight=False,
        soft_wrap=True,
    )


def _run(spark: SparkSession, work: Workload, scratch: Path, **settings: Any) -> _Shifted:
    from anabranch.bench.anabranch_join import start_join

    window_us = WINDOW * work.interval_us
    run = start_join(spark, work, scratch, window_us=window_us, sites=SITES, **settings)
    run.awaitTermination()
    busiest = [p["criticalPathMs"] for p in run.recentProgress]
    return _Shifted(busiest, run.events, scratch / "out", scratch / "checkpoint")


def _tell_decisions(console: Console, events: Sequence[Event]) -> None:
    """One line for what was decided of a kind after a batch: as many decisions, such as the first."""
    shown = [event for event in events if event.kind in SHOWN]
    for (batch, _), together in groupby(shown, key=lambda event: (event.batch, event.kind)):
        first, *others = together
        number = f", 1 of {1 + len(others)}" if others else ""
        told = f"   batch {batch}{number}: {first.message}"
        console.print(told, highlight=False, style="dim", no_wrap=True, overflow="ellipsis")
