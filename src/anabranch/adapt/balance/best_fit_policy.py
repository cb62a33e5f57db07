"""Our load policy: as many moves as the balance needs, at once, each partition where it fits best.

Flux moves one partition per pair and round because a move stops the partition and costs a transfer.
Where a move is a line in the manifest, waiting costs more than moving: this policy works on estimates
that remember earlier rounds, knows how slow each site is, and goes for the level that every site would
have if work could be split at will. It starts at `th_imb` above that level and stops well below, so
that noise does not start it again.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from anabranch.adapt.balance.packing import fluid_level
from anabranch.adapt.balance.policy import Thresholds
from anabranch.adapt.balance.proposal import Move, PolicyName, Proposal
from anabranch.adapt.balance.round_view import RoundView
from anabranch.adapt.measures.statistics import Floats, Ints

RECEIVERS_TRIED = 4
LEAST_RELIEF = 0.01
"""A move must lower the donor's and receiver's peak by this share."""


@dataclass(frozen=True, slots=True)
class BestFitPolicy:
    """Bring the busiest sites down to the common level.

    Parameters
    ----------
    max_moves
        At most this many partitions per round.
    stop_share
        Stops when the busiest site is within this share of the way from the level to `th_imb`.
    within_memory
        Only move to a site that has memory left for the partition.
    """

    max_moves: int = 128
    stop_share: float = 0.2
    within_memory: bool = False

    def propose(self, view: RoundView, thresholds: Thresholds) -> tuple[Proposal, ...]:
        load = view.load_of_sites()
        most = load + _load_that_fits(view) if self.within_memory else None
        level = fluid_level(view.work_s, view.slowness, fixed_s=view.fixed_s, most_s=most)
        if level <= 0 or load.max() < thresholds.imbalance * level:
            return ()
        enough = level * (1 + self.stop_share * (thresholds.imbalance - 1))
        search = _Search(view, load, level, self.within_memory)
        while len(search.proposals) < self.max_moves and search.load.max() > enough and search.step():
            pass
        return tuple(search.proposals)


def _load_that_fits(view: RoundView) -> Floats:
    """Load for which each site has memory left, in whole partitions of the usual size and work.

    A level that only sites without memory could bring about is out of reach: whoever measures the busiest
    site by it never comes to rest.
    """
    size, work = float(view.state_bytes.mean()), float(view.work_s.mean())
    if size <= 0 or work <= 0:
        return np.full(view.sites, np.inf)
    fit = np.floor(np.maximum(view.excess_of_sites(), 0.0) / size)
    return np.asarray(view.slowness * fit * work)


class _Search:
    """Greedy: each step takes one partition from the busiest site."""

    def __init__(self, view: RoundView, load: Floats, level: float, within_memory: bool) -> None:
        self.view = view
        self.load = load
        self.level = level
        self.room = view.excess_of_sites() if within_memory else np.full(view.sites, np.inf)
        self.site_of = view.site_of.copy()
        self.moved: set[int] = set()
        self.proposals: list[Proposal] = []

    def step(self) -> bool:
        donor = int(self.load.argmax())
        own = np.flatnonzero((self.site_of == donor) & ~self.view.pinned & (self.view.work_s > 0))
        own = own[[int(p) not in self.moved for p in own]] if self.moved and len(own) else own
        for receiver in np.argsort(self.load, kind="stable")[:RECEIVERS_TRIED]:
            partition = self._best(donor, int(receiver), own)
            if partition is not None:
                self._take(partition, donor, int(receiver))
                return True
        return False

    def _best(self, donor: int, receiver: int, own: Ints) -> int | None:
        """The biggest partition that lifts the receiver no higher than the level, else the lowest peak."""
        barred = self.view.barred
        fits = self.view.state_bytes[own] <= self.room[receiver]
        open_ = np.array([receiver not in barred.get(int(p), ()) for p in own], np.bool_)
        own = own[fits & open_]
        if donor == receiver or not len(own):
            return None
        left = self.load[donor] - self.view.slowness[donor] * self.view.work_s[own]
        got = self.load[receiver] + self.view.slowness[receiver] * self.view.work_s[own]
        peak = np.maximum(left, got)
        helps = peak < self.load[donor] * (1 - LEAST_RELIEF)
        gentle = helps & (got <= self.level) & (left >= self.level * (1 - LEAST_RELIEF))
        # Many small relieves add up: below the least relief only a partition that overshoots nothing goes.
        small = (got <= self.level) & (left >= self.level)
        for choice in (gentle, small):
            if choice.any():
                return int(own[choice][np.argmax(self.view.work_s[own][choice])])
        return int(own[np.argmin(peak)]) if helps.any() else None

    def _take(self, partition: int, donor: int, receiver: int) -> None:
        view, before = self.view, float(self.load[donor])
        idle = float(self.load[receiver])
        self.load[donor] -= view.slowness[donor] * view.work_s[partition]
        self.load[receiver] += view.slowness[receiver] * view.work_s[partition]
        self.room[receiver] -= view.state_bytes[partition]
        self.room[donor] += view.state_bytes[partition]
        self.site_of[partition] = receiver
        self.moved.add(partition)
        peak = float(max(self.load[donor], self.load[receiver]))
        self.proposals.append(
            Proposal(
                Move(partition, donor, receiver),
                PolicyName.LOAD,
                f"site {donor} carries {before / self.level:.2f}× the common level, "
                f"site {receiver} {idle / self.level:.2f}×; afterwards "
                f"{self.load[donor] / self.level:.2f}× and {self.load[receiver] / self.level:.2f}×",
                expected=max(0.0, 1 - peak / before),
            )
        )
