"""The transient-skew buffer: which rows go on now, and which wait (Flux, section 4).

Waiting rows are kept by partition, in one space that all destinations share, so that a site that is
slow for a moment uses what the others do not need. A driver takes the *oldest* rows of a partition, as
many as it is told here, so the order within a partition never changes.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from anabranch.adapt.measures.statistics import Flags, Floats, Ints, sum_by_site


@dataclass(frozen=True, slots=True)
class SkewBuffer:
    """A bounded buffer in front of the sites.

    Parameters
    ----------
    capacity_rows
        Rows that may wait, over all sites.
    """

    capacity_rows: int

    def admit(
        self, waiting: Ints, room: Floats, site_of: Ints, *, stalled: Flags | None = None, phase: float = 0.5
    ) -> Ints:
        """Rows of each partition that go on: as many as fit each site's room, the partitions taking turns.

        So a partition with few rows does not wait behind one with many (section 5.1: the producer cycles
        through the partitions whose destination is not blocked).

        Parameters
        ----------
        waiting
            Rows by partition, spooled and new.
        room
            Rows each site can take now; infinite for a site without a budget.
        stalled
            Partitions that must wait whatever the room, because they are being moved or are on disk.
        phase
            Where rounding starts, from 0 to 1; a driver that varies it rounds fairly over time.

        Examples
        --------
        >>> SkewBuffer(100).admit(np.array([30, 10, 8]), np.array([20.0, 99.0]), np.array([0, 0, 1])).tolist()
        [10, 10, 8]
        """
        open_ = waiting if stalled is None else np.where(stalled, 0, waiting)
        turns = _turns(open_, np.maximum(room, 0.0), site_of)
        share = np.minimum(1.0, turns[site_of] / np.maximum(open_, 1))
        return take_evenly(open_, share, phase=phase)

    def overflow(self, waiting: Ints, admitted: Ints, *, phase: float = 0.5) -> Ints:
        """Rows that must go on beyond the room, because the buffer cannot hold them.

        A driver that cannot make its sources wait processes these, too: the buffer is bounded, and
        no row is dropped.

        >>> SkewBuffer(10).overflow(np.array([30, 10]), np.array([15, 5])).tolist()
        [8, 2]
        """
        left = waiting - admitted
        total = int(left.sum())
        surplus = total - self.capacity_rows
        if surplus <= 0:
            return np.zeros_like(left)
        forced = take_evenly(left, np.full(len(left), surplus / total), phase=phase)
        short = surplus - int(forced.sum())
        for p in np.flatnonzero(left > forced)[: max(short, 0)]:
            forced[p] += 1
        return forced


def _turns(waiting: Ints, room: Floats, site_of: Ints) -> Floats:
    """Rows per partition, by site, until the site's room is used up: Σ min(waiting, turns) = room.

    Partitions with fewer rows than that go on whole and leave their room to the others; each pass finds more
    of them.
    """
    sites = len(room)
    left = np.where(sum_by_site(waiting, site_of, sites) <= room, np.inf, room)
    longer = waiting > 0
    count = np.bincount(site_of[longer], minlength=sites)
    while True:
        turns: Floats = np.divide(left, count, out=np.full(sites, np.inf), where=count > 0)
        whole = longer & (waiting <= turns[site_of])
        if not whole.any():
            return turns
        left = left - sum_by_site(np.where(whole, waiting, 0), site_of, sites)
        count = count - np.bincount(site_of[whole], minlength=sites)
        longer &= ~whole


def take_evenly(counts: Ints, share: Floats, *, phase: float = 0.5) -> Ints:
    """Take about this share of every count, whole rows, so that rounding cancels over neighbours.

    Systematic sampling: partition p gets the whole numbers in its stretch of the running sum.

    >>> take_evenly(np.array([1, 1, 1, 1]), np.full(4, 0.5), phase=0.0).tolist()
    [0, 1, 0, 1]
    """
    taken = (np.cumsum(counts * share) + phase).astype(np.int64)
    taken[1:] -= taken[:-1].copy()
    return np.asarray(np.minimum(taken, counts), dtype=np.int64)
