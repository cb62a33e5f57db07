"""A driver without a JVM: batches with a known true cost, as the runtime would report them."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from anabranch.adapt.balance.controller import Controller, Step
from anabranch.adapt.balance.packing import fluid_level
from anabranch.adapt.balance.proposal import Move
from anabranch.adapt.balance.self_tuning import Effect
from anabranch.adapt.events import EventKind
from anabranch.adapt.measures.statistics import Floats, Statistics, sum_by_site
from anabranch.exchange.address import PARTITIONS
from anabranch.exchange.partition_map import PartitionMap

FIXED_S = 0.002


def packing_bound(work_s: Floats, slowness: Floats, *, fixed_s: float = 0.0) -> float:
    """No assignment of whole partitions to sites makes the busiest site's load smaller than this."""
    biggest = float(work_s.max(initial=0.0)) + fixed_s
    return max(fluid_level(work_s, slowness, fixed_s=fixed_s), biggest * float(slowness.min()))


@dataclass
class BatchDriver:
    """Runs batches whose sites cost what they cost, with measurement noise."""

    controller: Controller
    sites: int = 8
    noise: float = 0.05
    seed: int = 0
    rows: int = 50_000
    overhead_s: float = 0.0
    """Of a batch, beside the busiest site."""
    cold: tuple[float, ...] = ()
    """Up to how many times as long sites take in the first batches, each as it happens."""
    batch: int = 0
    ratios: list[float] = field(default_factory=list)
    """True critical path of each batch against a perfect packing's."""
    moves: list[tuple[int, Move]] = field(default_factory=list)
    kinds: list[EventKind] = field(default_factory=list)
    saved: list[float] = field(default_factory=list)
    """What moves were seen to save, where the load did not shift meanwhile."""

    def __post_init__(self) -> None:
        self.map = PartitionMap.even(self.sites)
        self._rng = np.random.default_rng(self.seed)

    def run(self, shares: Floats, batches: int, *, slow: dict[int, float] | None = None) -> None:
        for _ in range(batches):
            self.step(shares, slow or {})

    def step(self, shares: Floats, slow: dict[int, float]) -> Step:
        rows = self._rng.multinomial(self.rows, shares)
        pairs = (0.05 * rows.astype(float) ** 1.5).astype(np.int64)
        work = 1e-6 * rows + 5e-7 * pairs
        speed = np.array([slow.get(s, 1.0) for s in range(self.sites)])
        true = speed * (FIXED_S + sum_by_site(work, self.map.as_array(), self.sites))
        self.ratios.append(float(true.max() / packing_bound(work, speed, fixed_s=FIXED_S)))
        measured = true * self._rng.normal(1, self.noise, self.sites).clip(0.6, 1.6)
        if self.batch < len(self.cold):
            measured *= self._rng.uniform(1, self.cold[self.batch], self.sites)
        batch = Statistics.of_batch(
            measured,
            rows,
            probes=rows,
            matches=pairs,
            state_bytes=rows * 100,
            overhead_s=self.overhead_s,
        )
        step = self.controller.step(self.batch, batch, self.map)
        self.moves += [(self.batch, d.proposal.move) for d in step.decisions if d.accepted]
        self.kinds += [e.kind for e in step.events]
        benefits = [e.data for e in step.events if e.kind is EventKind.BENEFIT_OBSERVED]
        self.saved += [b["observed"] for b in benefits if b["effect"] != Effect.UNKNOWN]
        self.map = step.partition_map
        self.batch += 1
        assert len(self.map.site_of_partition) == PARTITIONS
        return step

    def undone_within(self, batches: int) -> int:
        """Moves that took a partition back to a site it had left shortly before."""
        left: dict[tuple[int, int], int] = {}
        undone = 0
        for at, move in self.moves:
            before = left.get((move.partition, move.target))
            undone += before is not None and at - before <= batches
            left[move.partition, move.source] = at
        return undone
