"""Flux's memory policy (section 6.2): even out what memory the sites have beyond their state."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from anabranch.adapt.balance.policy import Thresholds
from anabranch.adapt.balance.proposal import Move, PolicyName, Proposal
from anabranch.adapt.balance.round_view import RoundView
from anabranch.adapt.measures.statistics import Ints, sum_by_site

MIB = 1 << 20


@dataclass(frozen=True, slots=True)
class MemoryPolicy:
    """Pair the site with the least excess memory with the one with the most, and so on inwards.

    Of the donor's partitions, in-memory ones first (an on-disk one must be read, and its pending input
    processed, before it can move), then by falling size, the first moves that makes the two sites'
    excess more alike. A receiver may be short of memory itself: then the move must "balance the number of
    on-disk partitions". One that only takes a partition off one disk and puts it on another, because the
    receiver has room for half of it, is not made: that is how in section 6.3 "each overloaded machine has one
    partition on disk" when aggregate memory is exhausted, and the others have none.

    Flux does not say how `th_imb` applies to excess, which may be negative. Here: a donor whose state does
    not fit gives as long as the gap is `th_imb` times the partition, so that a move clearly narrows it; one
    whose state fits gives only if it is `th_imb` times as full as the receiver.

    Parameters
    ----------
    passes
        How often sites are paired in a round, each time as if the moves before had been made, so that what a
        donor gives spreads over the receivers. Flux pairs them once; where moves are cheap, more are better.
    only_when_short
        Leave sites alone whose state fits their memory. Flux balances them, too.
    """

    passes: int = 1
    only_when_short: bool = False

    def propose(self, view: RoundView, thresholds: Thresholds) -> tuple[Proposal, ...]:
        proposals: list[Proposal] = []
        for _ in range(self.passes):
            found = self._pair_sites(view, thresholds)
            if not found:
                break
            proposals.extend(found)
            view = _as_if_moved(view, found)
        return tuple(proposals)

    def _pair_sites(self, view: RoundView, thresholds: Thresholds) -> list[Proposal]:
        excess = view.excess_of_sites()
        if not np.isfinite(excess).any():
            return []
        mean = float(excess[np.isfinite(excess)].mean())
        order = np.argsort(excess, kind="stable")
        proposals: list[Proposal] = []
        for donor, receiver in zip(order[: len(order) // 2], order[::-1], strict=False):
            least = float(excess[donor])
            if least > mean or (least >= 0 and not self._fuller(view, thresholds, int(donor), int(receiver))):
                break
            gap = min(float(excess[receiver]), 1e18) - least  # a receiver without a budget takes anything
            found = _first_that_evens(view, thresholds, int(donor), int(receiver), gap, least)
            if found is None:
                break
            proposals.append(found)
        return proposals

    def _fuller(self, view: RoundView, thresholds: Thresholds, donor: int, receiver: int) -> bool:
        if self.only_when_short:
            return False
        used = sum_by_site(view.state_bytes, view.site_of, view.sites)
        fill = used / view.memory_bytes
        return bool(fill[donor] >= thresholds.imbalance * fill[receiver])


def _as_if_moved(view: RoundView, proposals: list[Proposal]) -> RoundView:
    """The view after these moves; what has moved stays."""
    moved = [p.move.partition for p in proposals]
    site_of, pinned = view.site_of.copy(), view.pinned.copy()
    site_of[moved] = [p.move.target for p in proposals]
    pinned[moved] = True
    return replace(view, site_of=site_of, pinned=pinned)


def _first_that_evens(
    view: RoundView, thresholds: Thresholds, donor: int, receiver: int, gap: float, least: float
) -> Proposal | None:
    for partition in _in_memory_first(view, donor):
        size = int(view.state_bytes[partition])
        if size == 0 or not view.may_move(int(partition), receiver):
            continue
        if size * thresholds.imbalance <= gap and _evens_disks(least, least + gap, size):
            where = "on disk" if view.on_disk[partition] else "in memory"
            return Proposal(
                Move(int(partition), donor, receiver),
                PolicyName.MEMORY,
                f"site {donor} has {least / MIB:.1f} MiB beyond its state, site {receiver} "
                f"{gap / MIB:.1f} MiB more; {size / MIB:.1f} MiB, {where}, even them out",
                expected=max(0.0, 1 - abs(gap - 2 * size) / gap),
            )
    return None


def _evens_disks(least: float, most: float, size: int) -> bool:
    """Whether the receiver has room, or the two sites' numbers of partitions on disk get more alike.

    A move changes their difference by two, so it must be two at least.

    >>> _evens_disks(-4, 6, 6), _evens_disks(-4, 4, 6), _evens_disks(-10, 4, 6)
    (True, False, True)
    """
    if size <= most:
        return True
    donors, receivers = (max(0.0, -excess) / size for excess in (least, most))
    return bool(np.ceil(donors) - np.ceil(receivers) >= 2)


def _in_memory_first(view: RoundView, site: int) -> Ints:
    own = view.partitions_of(site)
    return own[np.lexsort((own, -view.state_bytes[own], view.on_disk[own]))]
