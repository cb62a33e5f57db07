"""Eddies beside fixed orders: CPU time of a chain of three streams, batch loop and state, without Spark."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

import pyarrow as pa

from anabranch.adapt.boundary.boundary_state import BoundaryState
from anabranch.adapt.boundary.decider import AdaptiveDecider
from anabranch.adapt.boundary.decisions import Decisions
from anabranch.adapt.boundary.observed import Observed
from anabranch.engine.local_driver import LocalRun
from anabranch.engine.settings import Settings
from anabranch.engine.step.batch_loop import BatchSummary
from anabranch.exchange.station_router import States, StationRouter, Ways
from anabranch.workloads.chain import STREAMS, Chain, flipping

Batches = Callable[[], Iterator[Mapping[str, pa.Table]]]
WARM_UP = 5
"""Batches that do not count: windows fill, and what an eddy does while it knows nothing has to leave them."""


class FixedOrder(AdaptiveDecider):
    """Sends all rows the same way: a static plan.

    Parameters
    ----------
    first
        The station, such as `r–s`, that rows take before others.
    """

    def __init__(self, first: str) -> None:
        self._first = first

    def start(self, state: BoundaryState, observed: Observed) -> tuple[BoundaryState, Decisions]:
        state, decisions = super().start(state, observed)
        return state, self._fixed(decisions, observed)

    def decide(self, state: BoundaryState, observed: Observed) -> tuple[BoundaryState, Decisions]:
        state, decisions = super().decide(state, observed)
        return state, self._fixed(decisions, observed)

    def _fixed(self, decisions: Decisions, observed: Observed) -> Decisions:
        ways = {
            choice.states: Ways.fixed(len(choice.states), choice.stations.index(self._first))
            for choice in observed.choices
        }
        return replace(decisions, router=StationRouter(ways))


@dataclass(frozen=True, slots=True)
class OrderBench:
    """CPU seconds of the same batches, by order of stations."""

    fixed: Mapping[str, float]
    eddy: float
    results: int
    first: tuple[float, ...]
    """By batch, part of the rows of s that the eddy sent to r–s first."""
    decided: tuple[str, ...]
    """By batch that counts, what the eddy decided by: `lottery` or `back-pressure`."""

    @property
    def ratio(self) -> float:
        """The eddy against the best fixed order: below 1 it is faster."""
        return self.eddy / min(self.fixed.values())


def run_orders(scratch: Path, chain: Chain, batches: Batches, *, sites: int = 4) -> OrderBench:
    """Run the batches in both fixed orders and with an eddy; raises if results differ."""
    runs = {
        name: _run(scratch / name.replace("–", "-"), chain, batches(), sites, first)
        for name, first in {"r–s": "r–s", "s–t": "s–t", "eddy": None}.items()
    }
    found = {run.results for run in runs.values()}
    if len(found) > 1:
        raise AssertionError(f"orders give different numbers of results: {found}")
    eddy = runs.pop("eddy")
    fixed = {name: run.seconds for name, run in runs.items()}
    return OrderBench(fixed, eddy.seconds, eddy.results, tuple(eddy.first), tuple(eddy.decided))


def run_loads(scratch: Path, *, rows: int = 100_000) -> dict[str, OrderBench]:
    """Loads on which orders differ: steady, flipping every 10th batch, and of two populations."""
    steady, other = Chain(rows, rows // 20), Chain(rows // 2, rows // 40)
    loads: dict[str, tuple[Chain, Batches]] = {
        "steady": (steady, lambda: steady.batches(20, lambda _: (0.05, 20.0))),
        "flip in every 10th batch": (other, lambda: other.batches(45, flipping(0.02, 30.0, every=10))),
        "two populations": (other, lambda: other.correlated(20, low=0.05, high=40.0)),
    }
    return {
        name: run_orders(scratch / name.replace(" ", "-"), chain, batches)
        for name, (chain, batches) in loads.items()
    }


@dataclass(slots=True)
class _Run:
    seconds: float = 0.0
    results: int = 0
    first: list[float] = field(default_factory=list)
    decided: list[str] = field(default_factory=list)


def _run(
    scratch: Path, chain: Chain, batches: Iterator[Mapping[str, pa.Table]], sites: int, first: str | None
) -> _Run:
    settings = Settings(sites=sites, slots=1, ordering="eddy", rebalance="off")
    decider = AdaptiveDecider() if first is None else FixedOrder(first)
    run = LocalRun(scratch, STREAMS, [chain.query()], settings=settings, decider=decider)
    states = next(i.alternatives for i in run.loop.layout.inputs if len(i.alternatives) > 1)
    told = _Run()
    try:
        for number, tables in enumerate(batches):
            began = time.process_time()
            summary = run.batch(tables)
            if number >= WARM_UP:
                told.seconds += time.process_time() - began
                told.decided += [eddy["decidedBy"] for eddy in summary.eddies]
            told.first.append(_first_share(summary, states))
        told.results = run.results("chain").num_rows
    finally:
        run.close()
    return told


def _first_share(summary: BatchSummary, states: States) -> float:
    """Part of the rows that arrived at the first of their stations."""
    sites = [site for report in summary.reports for site in report.sites]
    rows = [
        sum(int(s.stations[state].arrived.sum()) for s in sites if state in s.stations) for state in states
    ]
    return rows[0] / max(1, sum(rows))
