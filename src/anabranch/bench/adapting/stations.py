"""Eddies beside fixed orders: CPU time of a chain of three streams, batch loop and state, without Spark."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
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
ORDERS = ("r–s", "s–t")
"""Stations that rows of s may take first."""
EDDY = "eddy"
MIGRATION = "plan migration"
"""A join tree on one site, whose plan follows what is measured."""
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
    migration: float
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
    """Run the batches in all ways, in turns; raises if results differ."""
    ways = (*ORDERS, EDDY, MIGRATION)
    runs = {name: _Run(scratch / name.replace("–", "-"), chain, sites, name) for name in ways}
    try:
        for number, tables in enumerate(batches()):
            names = list(runs)
            for turn in range(len(names)):  # none always comes first, or last
                runs[names[(turn + number) % len(names)]].batch(tables, counts=number >= WARM_UP)
    finally:
        for run in runs.values():
            run.close()
    found = {run.results for run in runs.values()}
    if len(found) > 1:
        raise AssertionError(f"orders give different numbers of results: {found}")
    eddy = runs[EDDY]
    return OrderBench(
        {name: runs[name].seconds for name in ORDERS},
        eddy.seconds,
        runs[MIGRATION].seconds,
        eddy.results,
        tuple(eddy.first),
        tuple(eddy.decided),
    )


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


class _Run:
    def __init__(self, scratch: Path, chain: Chain, sites: int, order: str) -> None:
        ordering, routing = ("plan", "hash") if order == MIGRATION else ("eddy", "auto")
        settings = Settings(
            sites=sites,
            slots=1,
            ordering=ordering,
            routing=routing,
            rebalance="off",
            skew_buffer_rows=0,  # rows of the last batch must not wait for one that never comes
        )
        decider = FixedOrder(order) if order in ORDERS else AdaptiveDecider()
        self._run = LocalRun(scratch, STREAMS, [chain.query()], settings=settings, decider=decider)
        inputs = self._run.loop.layout.inputs
        self._states = next((i.alternatives for i in inputs if len(i.alternatives) > 1), ())
        self.seconds = 0.0
        self.results = 0
        self.first: list[float] = []
        self.decided: list[str] = []

    def batch(self, tables: Mapping[str, pa.Table], *, counts: bool) -> None:
        began = time.process_time()
        summary = self._run.batch(tables)
        if counts:
            self.seconds += time.process_time() - began
            self.decided += [eddy["decidedBy"] for eddy in summary.eddies]
        self.first.append(_first_share(summary, self._states))

    def close(self) -> None:
        self.results = self._run.results("chain").num_rows
        self._run.close()


def _first_share(summary: BatchSummary, states: States) -> float:
    """Part of the rows that arrived at the first of their stations; 0 where there are none."""
    sites = [site for report in summary.reports for site in report.sites]
    rows = [
        sum(int(s.stations[state].arrived.sum()) for s in sites if state in s.stations) for state in states
    ]
    return rows[0] / max(1, sum(rows)) if rows else 0.0
