"""The demo's last part: a join whose load shifts while it runs, with and without adaptation."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console

from anabranch.cli.figures import spark_line
from anabranch.errors import AnabranchError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from anabranch.runtime.events import Event
    from anabranch.testing.workloads import Workload

SITES = 8
WINDOW_BATCHES = 5
SHOWN = ("move_accepted", "plan_changed")
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


def show_shift(console: Console, spark: SparkSession, folder: Path, *, rows: int, batches: int) -> None:
    """Run the join twice and tell what adapting has changed, and what it has not."""
    from anabranch.bench.same_results import difference
    from anabranch.testing.crowded import turning_streams

    turn = batches // 2
    console.print(
        f"\n[bold]6  And when the load shifts?[/] Three streams, {SITES} sites. At batch {turn} other keys\n"
        "   become the busy ones, and the join order that was the best becomes a bad one",
        highlight=False,
    )
    work = turning_streams(folder / "shift" / "in", batches=batches, rows_per_batch=rows, turn_at=turn)
    fixed = _run(spark, work, folder / "shift" / "fixed", rebalance="off", migration="off")
    adapting = _run(spark, work, folder / "shift" / "adapting")
    unequal = difference(adapting.out, fixed.out, ("k", "a_id", "b_id", "c_id"))
    if unequal is not None:
        raise WrongResults(unequal)
    top = max(fixed.busiest_ms[1:])
    for name, run in (("as started", fixed), ("adapting", adapting)):
        line = spark_line([*run.busiest_ms[1:], top])[:-1]
        total = sum(run.busiest_ms[turn:])
        console.print(
            f"   {name:<12}{line}   busiest site, {total:,.0f} ms from batch {turn} on", highlight=False
        )
    _tell_decisions(console, adapting.events)
    ratio = sum(fixed.busiest_ms[turn:]) / sum(adapting.busiest_ms[turn:])
    console.print(
        f"   After the shift the busiest site has {ratio:.1f} times less to do; "
        "[green]the results are the same[/].\n"
        f"   anabranch explain {adapting.checkpoint} --why     every decision, with its numbers",
        highlight=False,
        soft_wrap=True,
    )


def _run(spark: SparkSession, work: Workload, scratch: Path, **settings: Any) -> _Shifted:
    from anabranch.bench.anabranch_join import start_join

    window_us = WINDOW_BATCHES * work.interval_us
    run = start_join(spark, work, scratch, window_us=window_us, sites=SITES, **settings)
    run.awaitTermination()
    busiest = [p["criticalPathMs"] for p in run.recentProgress]
    return _Shifted(busiest, run.events, scratch / "out", scratch / "checkpoint")


def _tell_decisions(console: Console, events: Sequence[Event]) -> None:
    """One line for what was decided of a kind after a batch."""
    shown = [event for event in events if event.kind in SHOWN]
    for (batch, _), together in groupby(shown, key=lambda event: (event.batch, event.kind)):
        first, *others = together
        more = f"; and {len(others)} more" if others else ""
        console.print(f"   batch {batch}: {first.message}{more}", highlight=False, style="dim")
