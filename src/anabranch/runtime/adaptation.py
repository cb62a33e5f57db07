"""Adaptation between two batches: reports become statistics, the controller decides, the loop enacts.

All judgement is in `adapt`; this is the driver of those objects on Spark, as `sim` is their other.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from anabranch.adapt.controller import Controller
from anabranch.adapt.controller_settings import ControllerSettings
from anabranch.adapt.events import AdaptEvent, EventKind
from anabranch.adapt.hybrid_policy import HybridPolicy
from anabranch.adapt.rolling import Memory
from anabranch.adapt.site_budgets import RowBudget, SiteRecord, plan_budgets
from anabranch.adapt.spill import SiteSpill, SpillKind, SpillStep, plan_spill
from anabranch.adapt.statistics import Ints, Statistics
from anabranch.exchange.partition_map import PARTITIONS, PartitionMap
from anabranch.runtime.admission import Admission, is_waiting
from anabranch.runtime.reports import SlotReport
from anabranch.runtime.settings import Settings
from anabranch.state.block import BlockMeta

HICCUP_S = 0.01
"""What a pause of the machine adds to the time of a site, in a batch that takes some milliseconds."""
KEPT_EVENTS = 64
"""Events that the manifest keeps, so that a finished run can still say why."""


class Adaptation:
    """What a session has learnt and decided so far.

    Parameters
    ----------
    settings
        `rebalance`, `memory_budget_mb` and `skew_buffer_rows` count.
    remembered
        What `to_json` gave for the last manifest; empty in a new checkpoint.
    held
        By state, bytes per row that queries hold beside it while they answer.
    """

    def __init__(
        self, settings: Settings, remembered: Mapping[str, Any], held: Mapping[str, int] | None = None
    ) -> None:
        self.settings = settings
        self._held = held or {}
        self._controller = Controller.from_json(
            remembered.get("controller", {}),
            HybridPolicy.default(),
            ControllerSettings(memory=Memory(hiccup_s=HICCUP_S)),
        )
        self._spill = {int(s): SiteSpill.from_json(q) for s, q in remembered.get("spill", {}).items()}
        self._row_budgets = {int(s): RowBudget(*b) for s, b in remembered.get("rowBudgets", {}).items()}
        self._sites = SiteRecord.from_json(remembered.get("sites", {}))
        self._waiting = np.zeros(PARTITIONS, np.int64)
        for partition, rows in remembered.get("waiting", ()):
            self._waiting[partition] = rows
        self._events: deque[dict[str, Any]] = deque(remembered.get("events", ()), maxlen=KEPT_EVENTS)

    def admission(self) -> Admission:
        """What the sites may take in the next batch."""
        spilled = frozenset(p for queues in self._spill.values() for p in queues.on_disk)
        return Admission(dict(self._row_budgets), spilled)

    def after(
        self,
        batch: int,
        partition_map: PartitionMap,
        reports: Sequence[SlotReport],
        blocks: Sequence[BlockMeta],
        relocating: bool = False,
    ) -> tuple[PartitionMap, tuple[AdaptEvent, ...]]:
        """Take note of a batch and decide what changes before the next one.

        Parameters
        ----------
        partition_map
            The map under which the batch ran.
        blocks
            What the next batch will start from.
        relocating
            Whether a site still works for partitions that have left it: what it is busy with says
            nothing about those it owns, so that nothing is decided (papers/dcape.txt, algorithm 1: wait).
        """
        statistics = self._statistics(partition_map, reports, blocks)
        ran_at = partition_map.as_array().astype(np.int64)
        events: tuple[AdaptEvent, ...] = ()
        if self.settings.rebalance != "off" and partition_map.sites > 1 and not relocating:
            step = self._controller.step(batch, statistics, partition_map)
            partition_map, events = step.partition_map, step.events
        events += self.plan_memory(batch, partition_map, statistics.state_bytes)
        site_of = partition_map.as_array().astype(np.int64)
        arrived = statistics.rows + statistics.pending_rows - self._waiting
        self._waiting = statistics.pending_rows
        if relocating or partition_map.sites != statistics.sites or self.admission().spilled:
            self._row_budgets = {}
            return partition_map, events
        return partition_map, events + self._plan_budgets(batch, statistics, arrived, ran_at, site_of)

    def remember(self, events: Iterable[AdaptEvent]) -> None:
        """Keep what was decided, for whoever asks later."""
        self._events.extend(event.to_json() for event in events)

    def to_json(self) -> dict[str, Any]:
        """What the manifest must remember."""
        return {
            "controller": self._controller.to_json(),
            "spill": {str(site): queues.to_json() for site, queues in self._spill.items()},
            "rowBudgets": {str(site): [b.rows, b.waiting] for site, b in self._row_budgets.items()},
            "sites": self._sites.to_json(),
            "waiting": [[int(p), int(self._waiting[p])] for p in np.flatnonzero(self._waiting)],
            "events": list(self._events),
        }

    def _statistics(
        self, partition_map: PartitionMap, reports: Sequence[SlotReport], blocks: Sequence[BlockMeta]
    ) -> Statistics:
        busy = np.zeros(partition_map.sites)
        rows, pairs = np.zeros(PARTITIONS, np.int64), np.zeros(PARTITIONS, np.int64)
        for site in (s for r in reports for s in r.sites):
            # What a move or another plan took once says nothing about the load that is to come.
            busy[site.site] = max(0.0, site.busy_s - site.copy_s - site.rebuild_s)
            for partition, arrived, matched in site.partitions:
                rows[partition] += arrived
                pairs[partition] += matched
        spilled = np.zeros(PARTITIONS, np.bool_)
        spilled[sorted(self.admission().spilled)] = True
        budget = self.settings.memory_budget_bytes
        return Statistics.of_batch(
            busy,
            rows,
            probes=rows,
            matches=pairs,
            state_bytes=state_bytes(blocks, self._held),
            pending_rows=_pending_rows(blocks),
            on_disk=spilled,
            memory_bytes=np.full(partition_map.sites, budget) if budget else None,
        )

    def plan_memory(self, batch: int, partition_map: PartitionMap, sizes: Ints) -> tuple[AdaptEvent, ...]:
        """Decide which partitions of each site are in memory for the next batch, by bytes of each."""
        budget, site_of = self.settings.memory_budget_bytes, partition_map.as_array()
        if not budget:
            self._spill = {}
            return ()
        events = []
        for site in range(partition_map.sites):
            known = self._spill.get(site, SiteSpill())
            queues = known.owning(np.flatnonzero(site_of == site))
            steps: list[SpillStep] = []
            # Flux activates one partition at a time; at a boundary all that are in memory can be exchanged.
            # One that has just come in stays: queues that turn in step with the batches would starve others.
            for _ in range(max(1, len(queues.in_memory))):
                turned, more = plan_spill(queues, sizes, budget=budget, now=batch, gap=0)
                came = {s.partition for s in steps if s.kind is SpillKind.ACTIVATE}
                if any(s.kind is SpillKind.SPILL and s.partition in came for s in more):
                    break
                queues = turned
                steps += more
            self._spill[site] = queues
            # While partitions only take turns, there is nothing new to tell.
            if steps and len(queues.on_disk) != len(known.on_disk):
                out = sum(step.kind is SpillKind.SPILL for step in steps)
                events.append(
                    AdaptEvent(
                        batch,
                        EventKind.MEMORY_PLANNED,
                        f"site {site}: {out} partitions spilled, {len(steps) - out} activated; "
                        f"{len(queues.on_disk)} of {len(queues.on_disk) + len(queues.in_memory)} on disk",
                        {"site": site, "spilled": out, "activated": len(steps) - out},
                    )
                )
        self._spill = {s: q for s, q in self._spill.items() if s < partition_map.sites}
        return tuple(events)

    def _plan_budgets(
        self, batch: int, statistics: Statistics, arrived: Ints, ran_at: Ints, site_of: Ints
    ) -> tuple[AdaptEvent, ...]:
        """Which sites put rows off in the next batch."""
        known, record = self._row_budgets, self._sites
        self._row_budgets, self._sites = plan_budgets(
            statistics,
            arrived,
            ran_at=ran_at,
            next_at=site_of,
            record=record,
            capacity=self.settings.skew_buffer_rows,
        )
        put_off = [
            AdaptEvent(
                batch,
                EventKind.ROWS_PUT_OFF,
                f"site {site} takes {budget.rows:,} rows of the next batch, so that it does not hold up the "
                f"others; up to {budget.waiting:,} wait",
                {"site": site, "rows": budget.rows, "waiting": budget.waiting},
            )
            for site, budget in self._row_budgets.items()
            if site not in known
        ]
        given_up = [
            AdaptEvent(
                batch,
                EventKind.SKEW_LASTS,
                f"site {site} has had more than its share for {self._sites.over[site]} batches: "
                "its rows no longer wait",
                {"site": site},
            )
            for site in known
            if self._sites.is_lasting(site) and not record.is_lasting(site)
        ]
        return (*put_off, *given_up)


def state_bytes(blocks: Sequence[BlockMeta], held: Mapping[str, int]) -> Ints:
    """Bytes of state per partition, by its share of the rows of every block, and what is held beside them."""
    kept = [b for b in blocks if b.rows and not is_waiting(b.state)]
    return _by_partition(kept, [b.bytes / b.rows + held.get(b.state, 0) for b in kept])


def _pending_rows(blocks: Sequence[BlockMeta]) -> Ints:
    waiting = [b for b in blocks if is_waiting(b.state)]
    return _by_partition(waiting, [1.0] * len(waiting))


def _by_partition(blocks: Sequence[BlockMeta], weights: Sequence[float]) -> Ints:
    """Rows per partition, those of each block times its weight."""
    total = np.zeros(PARTITIONS)
    for block, weight in zip(blocks, weights, strict=True):
        partitions, rows = np.array(block.partitions, dtype=np.int64).T
        total[partitions] += rows * weight
    return total.round().astype(np.int64)
