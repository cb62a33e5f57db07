"""Which partitions of a site are in memory and which on disk (Flux, section 6.1).

    in memory  [oldest … newest]   ──spill──►   on disk  [oldest … newest]
                         ▲──────────activate──────────────┘

Both are first-in-first-out queues. State beyond the budget is spilled; where memory is left, partitions
come back; while neither helps, the queues rotate every `t_gap`, so that no partition's input waits for ever.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any, SupportsIndex

import numpy as np

from anabranch.adapt.measures.statistics import Ints


class SpillKind(StrEnum):
    """What to do with a partition's state."""

    SPILL = "spill"
    ACTIVATE = "activate"


@dataclass(frozen=True, slots=True)
class SpillStep:
    """Write a partition's state out, or read it back and then process its pending input."""

    kind: SpillKind
    partition: int


@dataclass(frozen=True, slots=True)
class SiteSpill:
    """The two queues of a site, and when a partition was last activated."""

    in_memory: tuple[int, ...] = ()
    on_disk: tuple[int, ...] = ()
    activated_at: float = -np.inf

    def owning(self, partitions: Iterable[SupportsIndex]) -> SiteSpill:
        """After moves: what left is forgotten, what came is in memory.

        >>> SiteSpill((1, 2), (3,)).owning([2, 3, 9])
        SiteSpill(in_memory=(2, 9), on_disk=(3,), activated_at=-inf)
        """
        owned = [int(p) for p in partitions]
        kept = set(owned)
        known = {*self.in_memory, *self.on_disk}
        return replace(
            self,
            in_memory=(*(p for p in self.in_memory if p in kept), *(p for p in owned if p not in known)),
            on_disk=tuple(p for p in self.on_disk if p in kept),
        )

    def apply(self, step: SpillStep, now: float) -> SiteSpill:
        """The queues after a step."""
        p = step.partition
        if step.kind is SpillKind.SPILL:
            return replace(
                self, in_memory=tuple(q for q in self.in_memory if q != p), on_disk=(*self.on_disk, p)
            )
        return SiteSpill((*self.in_memory, p), tuple(q for q in self.on_disk if q != p), now)

    def to_json(self) -> dict[str, Any]:
        at = self.activated_at
        return {
            "inMemory": list(self.in_memory),
            "onDisk": list(self.on_disk),
            "activatedAt": at if np.isfinite(at) else None,
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> SiteSpill:
        at = data["activatedAt"]
        return cls(tuple(data["inMemory"]), tuple(data["onDisk"]), -np.inf if at is None else float(at))


def plan_spill(
    queues: SiteSpill,
    sizes: Sequence[int] | Ints,
    *,
    budget: float,
    now: float,
    gap: float,
    most: int = 1 << 30,
) -> tuple[SiteSpill, tuple[SpillStep, ...]]:
    """Decide what a site spills and activates now.

    Raising or lowering `budget` between two calls is how memory is donated and relinquished.

    Parameters
    ----------
    sizes
        Bytes by partition.
    budget
        Bytes of state the site may hold in memory.
    now, gap
        t_gap: how long an activated partition stays before the queues rotate, in the unit of `now`.
    most
        Upper bound of partitions to spill or activate, for a driver whose disk is busy meanwhile. A
        rotation counts as one.

    Examples
    --------
    >>> queues, steps = plan_spill(SiteSpill((0, 1, 2)), [4, 4, 4], budget=8, now=1, gap=1)
    >>> [(str(s.kind), s.partition) for s in steps], queues.on_disk
    ([('spill', 0)], (0,))
    >>> queues, steps = plan_spill(queues, [4, 4, 4], budget=8, now=2, gap=1)   # rotate
    >>> [(str(s.kind), s.partition) for s in steps]
    [('spill', 1), ('activate', 0)]
    """
    steps: list[SpillStep] = []
    used = float(sum(sizes[p] for p in queues.in_memory))
    while used > budget and len(queues.in_memory) > 1 and len(steps) < most:
        step = SpillStep(SpillKind.SPILL, queues.in_memory[0])
        queues, used = queues.apply(step, now), used - float(sizes[step.partition])
        steps.append(step)
    if steps:
        return queues, tuple(steps)
    while queues.on_disk and used + float(sizes[queues.on_disk[0]]) <= budget and len(steps) < most:
        step = SpillStep(SpillKind.ACTIVATE, queues.on_disk[0])
        queues, used = queues.apply(step, now), used + float(sizes[step.partition])
        steps.append(step)
    if steps or not queues.on_disk or now - queues.activated_at < gap:
        return queues, tuple(steps)
    return _rotate(queues, sizes, budget=budget, used=used, now=now)


def _rotate(
    queues: SiteSpill, sizes: Sequence[int] | Ints, *, budget: float, used: float, now: float
) -> tuple[SiteSpill, tuple[SpillStep, ...]]:
    """Make room for the first on-disk partition and bring it in.

    One that is larger than the whole budget comes in alone: its input must be processed some time.
    """
    steps: list[SpillStep] = []
    comes = queues.on_disk[0]
    while queues.in_memory and used + float(sizes[comes]) > budget:
        step = SpillStep(SpillKind.SPILL, queues.in_memory[0])
        queues, used = queues.apply(step, now), used - float(sizes[step.partition])
        steps.append(step)
    steps.append(SpillStep(SpillKind.ACTIVATE, comes))
    return queues.apply(steps[-1], now), tuple(steps)
