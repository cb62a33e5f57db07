"""Which partitions of each site are in memory, which sites put rows off: what is remembered of both."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from anabranch.adapt.events import Event, EventKind
from anabranch.adapt.measures.statistics import Ints, Statistics
from anabranch.adapt.memory.admission import Admission
from anabranch.adapt.memory.site_budgets import Capacity, RowBudget, SiteRecord, plan_budgets
from anabranch.adapt.memory.spill import SiteSpill, SpillKind, SpillStep, plan_spill
from anabranch.exchange.address import PARTITIONS
from anabranch.exchange.partition_map import PartitionMap


@dataclass(frozen=True, slots=True)
class MemoryState:
    """A value: each decision gives another one.

    Attributes
    ----------
    waiting
        Rows that wait, by partition, after the last batch.
    """

    spill: Mapping[int, SiteSpill] = field(default_factory=dict)
    row_budgets: Mapping[int, RowBudget] = field(default_factory=dict)
    record: SiteRecord = field(default_factory=SiteRecord)
    waiting: Ints = field(default_factory=lambda: np.zeros(PARTITIONS, np.int64))

    def admission(self) -> Admission:
        """What the sites may take in the next batch."""
        spilled = frozenset(p for queues in self.spill.values() for p in queues.on_disk)
        return Admission(self.row_budgets, spilled)

    def to_json(self) -> dict[str, Any]:
        return {
            "spill": {str(site): queues.to_json() for site, queues in self.spill.items()},
            "rowBudgets": {str(site): [b.rows, b.waiting] for site, b in self.row_budgets.items()},
            "sites": self.record.to_json(),
            "waiting": [[int(p), int(self.waiting[p])] for p in np.flatnonzero(self.waiting)],
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> MemoryState:
        waiting = np.zeros(PARTITIONS, np.int64)
        for partition, rows in data.get("waiting", ()):
            waiting[partition] = rows
        return cls(
            {int(site): SiteSpill.from_json(queues) for site, queues in data.get("spill", {}).items()},
            {int(site): RowBudget(*budget) for site, budget in data.get("rowBudgets", {}).items()},
            SiteRecord.from_json(data.get("sites", {})),
            waiting,
        )


def choose_spilled(
    state: MemoryState, batch: int, *, partition_map: PartitionMap, sizes: Ints, budget: int
) -> tuple[MemoryState, tuple[Event, ...]]:
    """Decide which partitions of each site are in memory for the next batch.

    Parameters
    ----------
    sizes
        Bytes by partition.
    budget
        Bytes that a site may work on at a time; 0 is all.
    """
    if not budget:
        return replace(state, spill={}), ()
    site_of, spill, events = partition_map.as_array(), {}, []
    for site in range(partition_map.sites):
        known = state.spill.get(site, SiteSpill())
        queues = known.owning(np.flatnonzero(site_of == site))
        spill[site], steps = _turned(queues, batch, sizes=sizes, budget=budget)
        # While partitions only take turns, there is nothing new to tell.
        if steps and len(spill[site].on_disk) != len(known.on_disk):
            events.append(_told(batch, site, spill[site], steps))
    return replace(state, spill=spill), tuple(events)


def _turned(queues: SiteSpill, batch: int, *, sizes: Ints, budget: int) -> tuple[SiteSpill, list[SpillStep]]:
    """The queues of a site for the next batch.

    Flux activates one partition at a time; at a boundary all that are in memory can be exchanged. One that
    has just come in stays: queues that turn in step with the batches would starve others.
    """
    steps: list[SpillStep] = []
    for _ in range(max(1, len(queues.in_memory))):
        turned, more = plan_spill(queues, sizes, budget=budget, now=batch, gap=0)
        came = {s.partition for s in steps if s.kind is SpillKind.ACTIVATE}
        if any(s.kind is SpillKind.SPILL and s.partition in came for s in more):
            break
        queues = turned
        steps += more
    return queues, steps


def _told(batch: int, site: int, queues: SiteSpill, steps: list[SpillStep]) -> Event:
    out = sum(step.kind is SpillKind.SPILL for step in steps)
    return Event(
        batch,
        EventKind.MEMORY_PLANNED,
        f"site {site}: {out} partitions spilled, {len(steps) - out} activated; "
        f"{len(queues.on_disk)} of {len(queues.on_disk) + len(queues.in_memory)} on disk",
        {"site": site, "spilled": out, "activated": len(steps) - out},
    )


def choose_budgets(
    state: MemoryState,
    batch: int,
    statistics: Statistics,
    *,
    before: PartitionMap,
    after: PartitionMap,
    capacity: Capacity,
    comparable: bool,
) -> tuple[MemoryState, tuple[Event, ...]]:
    """Decide which sites put rows off in the next batch.

    Parameters
    ----------
    before, after
        The map under which the batch ran, and the next one.
    comparable
        Whether the next batch will be like this one; if not, nobody puts rows off.
    """
    arrived = statistics.rows + statistics.pending_rows - state.waiting
    if not comparable or before.sites != after.sites or state.admission().spilled:
        return replace(state, waiting=statistics.pending_rows, row_budgets={}), ()
    budgets, record = plan_budgets(
        statistics,
        arrived,
        ran_at=before.as_array().astype(np.int64),
        next_at=after.as_array().astype(np.int64),
        record=state.record,
        capacity=capacity,
    )
    put_off = [_put_off(batch, site, b) for site, b in budgets.items() if site not in state.row_budgets]
    given_up = [
        _given_up(batch, site, record.over[site])
        for site in state.row_budgets
        if record.is_lasting(site) and not state.record.is_lasting(site)
    ]
    state = replace(state, waiting=statistics.pending_rows, row_budgets=budgets, record=record)
    return state, (*put_off, *given_up)


def _put_off(batch: int, site: int, budget: RowBudget) -> Event:
    return Event(
        batch,
        EventKind.ROWS_PUT_OFF,
        f"site {site} takes {budget.rows:,} rows of the next batch, so that it does not hold up the "
        f"others; up to {budget.waiting:,} wait",
        {"site": site, "rows": budget.rows, "waiting": budget.waiting},
    )


def _given_up(batch: int, site: int, batches: int) -> Event:
    message = f"site {site} has had more than its share for {batches} batches: its rows no longer wait"
    return Event(batch, EventKind.SKEW_LASTS, message, {"site": site})
