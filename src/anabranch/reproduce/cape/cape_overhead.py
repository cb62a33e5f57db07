"""cape-overhead: what statistics and optimizer take of the CPU while there is nothing to change.

Two runs of a machine differ by more than what is asked for here, so nothing is switched off: the functions
that exist only for the optimizer are timed inside one run.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

from anabranch.adapt.boundary import decider
from anabranch.engine.settings import Settings
from anabranch.engine.task.track_run import TrackRun
from anabranch.reproduce.cape.cape_run import CapeRun, run_cape
from anabranch.reproduce.cape.cape_streams import NAMES, OLD_PLAN, Arrivals, Load
from anabranch.reproduce.report.result import Check, Result, Table, at_most

SITES = 2
PER_WINDOW = 8
STABLE = 2 * PER_WINDOW
"""From this batch on: until the window is full and a window longer, states grow."""
SHARDS = 64
INTERVAL_US = 1_000_000
ALLOWED = 0.05
PARTNERS = {"x": 0.3, "y": 1.0, "z": 3.0}
"""Of a row in the window of the next stream: the plan at the start is the best one."""


@dataclass(slots=True)
class Spent:
    """CPU seconds of this thread inside a function."""

    seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class Overhead:
    """CPU seconds of a run."""

    rows: int
    sites_s: float
    sampling_s: float
    deciding_s: float
    changes: int

    @property
    def share(self) -> float:
        """Of all CPU time of sites and optimizer, what there would not be without the optimizer."""
        return (self.sampling_s + self.deciding_s) / (self.sites_s + self.deciding_s)


def cape_overhead(out: Path, *, quick: bool = False) -> Result:
    """Stable loads, from batches that cost little but their fixed price to large ones."""
    sizes = (2_000,) if quick else (1_000, 5_000, 20_000)
    found = [overhead(rows, batches=(2 if quick else 12) * PER_WINDOW) for rows in sizes]
    return Result(
        "cape-overhead",
        f"statistics and optimizer on a stable load, {SITES} sites; engine without a JVM (LocalRun)",
        Table(
            (
                "rows per stream and batch",
                "CPU of the sites (s)",
                "of it, statistics and samples (s)",
                "evaluating plans (s)",
                "share",
            ),
            tuple((o.rows, o.sites_s, o.sampling_s, o.deciding_s, o.share) for o in found),
        ),
        (
            at_most("largest share of statistics and optimizer", max(o.share for o in found), ALLOWED),
            Check("the load is stable: no plan changes", not any(o.changes for o in found), ""),
        ),
    )


def overhead(rows: int, *, batches: int) -> Overhead:
    """Run it and time what only the optimizer needs."""
    in_window = rows * PER_WINDOW / SHARDS
    values = {key: round(in_window / partners) for key, partners in PARTNERS.items()}
    load = Load(dict.fromkeys(NAMES, rows * 1e6 / INTERVAL_US), values, SHARDS)
    what = CapeRun(
        Arrivals({0: load}, INTERVAL_US),
        PER_WINDOW * INTERVAL_US,
        PER_WINDOW + batches,
        settings=Settings(sites=SITES, slots=1, migration="auto", rebalance="off"),
        sharded=True,
    )
    with (
        timed(TrackRun, "_tell_references", lambda run, *_: run._task.batch) as sampling,
        timed(decider, "choose_plans", lambda _, observed: observed.batch) as deciding,
    ):
        trace = run_cape(what)
    changes = sum(set(plans) != {OLD_PLAN} for plans in trace.plans)
    return Overhead(rows, sum(trace.busy_s[STABLE:]), sampling.seconds, deciding.seconds, changes)


@contextmanager
def timed(owner: type | ModuleType, name: str, batch_of: Callable[..., int]) -> Iterator[Spent]:
    """Time a method of a class, or what a module calls, while this lasts, in batches with a stable load."""
    spent = Spent()
    method: Callable[..., Any] = getattr(owner, name)

    def measured(*arguments: Any, **more: Any) -> Any:
        started = time.thread_time()
        try:
            return method(*arguments, **more)
        finally:
            if batch_of(*arguments) >= STABLE:
                spent.seconds += time.thread_time() - started

    setattr(owner, name, measured)
    try:
        yield spent
    finally:
        setattr(owner, name, method)
