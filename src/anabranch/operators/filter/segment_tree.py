"""A segment tree: which lists the intervals around an attribute's value are in."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numba import njit

from anabranch.operators.filter.coding import LEAST, MOST
from anabranch.operators.filter.entry_arrays import EntryArrays
from anabranch.operators.filter.kernel import match_intervals, match_plain_intervals
from anabranch.operators.filter.lists import Lists, Spans, splitters
from anabranch.operators.rows.arrays import Int64s

FLAT = 4
"""Pieces per interval up to which intervals hang at each of their pieces: a value then meets one list."""


@dataclass(frozen=True, slots=True, eq=False)
class SegmentTree:
    """The entries of one attribute that are found by an interval.

    Attributes
    ----------
    cuts
        Where some interval begins, or has just ended.
    cells, shift
        Values by their upper bits: the number of the first cut in each cell.
    halvings
        Until one of the cuts of a cell is left.
    nodes
        By node the nearest at or above it that has a list, and start and end of its own.
    is_plain
        Whether each entry asks for its interval only, and is the only one of its member.
    """

    attribute: int
    cuts: Int64s
    cells: Spans
    shift: int
    halvings: int
    nodes: Spans
    is_plain: bool

    @classmethod
    def of(
        cls, attribute: int, flat: EntryArrays, checks: Int64s, lists: Lists, *, is_plain: bool
    ) -> SegmentTree:
        """Tree of the entries that these checks are of."""
        low, high = flat.low[checks], flat.high[checks]
        cuts = np.unique(np.concatenate([low[low != LEAST], high[high != MOST] + 1]))
        cuts = cuts if len(cuts) else np.zeros(1, dtype=np.int64)
        leaves = 1 << len(cuts).bit_length()
        first, last = (np.searchsorted(cuts, bound, "right") + leaves for bound in (low, high))
        pieces = int((last - first + 1).sum())
        is_flat = pieces <= FLAT * len(checks)
        most = pieces if is_flat else 2 * leaves.bit_length() * len(checks)
        hung, owners = np.empty(most, np.int64), np.empty(most, np.int64)
        found = _hang(first, last + 1, flat.entry[checks], is_flat, hung, owners)
        used, place = np.unique(hung[:found], return_inverse=True)
        spans = lists.add(place, owners[:found], count=len(used))
        shift, cells = _cells(cuts)
        halvings = int(np.diff(cells).max()).bit_length()
        return cls(attribute, cuts, cells, shift, halvings, _nodes(used, spans, leaves), is_plain)

    @property
    def splitters(self) -> Int64s:
        """None for plain intervals: nothing is read for a row but what was looked up ahead of it."""
        return np.empty(0, dtype=np.int64) if self.is_plain else splitters(self.cuts)

    def match(self, first: int, *rows_and_room: Any) -> tuple[int, int]:
        """Match rows from the one at place `first` on."""
        tree = self.attribute, self.cuts, self.cells, self.shift, self.halvings, self.nodes, first
        if self.is_plain:
            codes, valid, order, postings, _, _, alive, *_, out_rows, out_entries = rows_and_room
            rows_and_room = codes, valid, order, postings, alive, out_rows, out_entries
        match = match_plain_intervals if self.is_plain else match_intervals
        found: tuple[int, int] = match(*tree, *rows_and_room)
        return found


def _cells(cuts: Int64s) -> tuple[int, Spans]:
    """Bits that a cell leaves out, and by cell the number of the first cut in it."""
    span = int(cuts[-1]) - int(cuts[0])
    shift = max(span.bit_length() - (4 * len(cuts)).bit_length(), 0)
    cell_of = (cuts.view(np.uint64) - cuts.view(np.uint64)[0]) >> np.uint64(shift)
    first = np.searchsorted(cell_of, np.arange((span >> shift) + 2, dtype=np.uint64))
    return shift, first.astype(np.int32)


@njit(cache=True, nogil=True)
def _hang(first: Any, after: Any, entries: Any, is_flat: Any, nodes: Any, owners: Any) -> int:
    """Nodes that each interval hangs at: its pieces, or the fewest nodes that make it up."""
    found = 0
    for i in range(len(first)):
        left, right = first[i], after[i]
        if is_flat:
            for node in range(left, right):
                nodes[found], owners[found] = node, entries[i]
                found += 1
            continue
        while left < right:
            if left & 1:
                nodes[found], owners[found] = left, entries[i]
                found += 1
                left += 1
            if right & 1:
                right -= 1
                nodes[found], owners[found] = right, entries[i]
                found += 1
            left >>= 1
            right >>= 1
    return found


@njit(cache=True, nogil=True)
def _nodes(used: Any, spans: Any, leaves: Any) -> Any:
    nodes = np.zeros((2 * leaves, 3), dtype=np.int32)
    for i in range(len(used)):
        nodes[used[i], 1] = spans[i, 0]
        nodes[used[i], 2] = spans[i, 1]
    for node in range(1, 2 * leaves):
        nodes[node, 0] = node if nodes[node, 2] > 0 else nodes[node >> 1, 0]
    return nodes
