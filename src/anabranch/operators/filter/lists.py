"""Lists of entries, laid out one after the other."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from anabranch.operators.rows.arrays import Int64s, Rows32

Spans = npt.NDArray[np.int32]
"""Start and end of lists."""


LARGE = 1 << 14
"""Values from which on an index leaves the cache: rows are brought into an order near to its own."""
PARTS = 256
"""Parts that this order has."""


def splitters(ascending: Int64s) -> Int64s:
    """Values that cut many into parts; none where an index has few."""
    if len(ascending) < LARGE:
        return np.empty(0, dtype=np.int64)
    return ascending[np.arange(1, PARTS) * len(ascending) // PARTS]


@dataclass(frozen=True, slots=True)
class FirstChecks:
    """By entry the check that lies beside it in its list, attribute -1 for none; and whether more are."""

    attribute: Int64s
    low: Int64s
    high: Int64s
    more: npt.NDArray[np.bool_]


class Lists:
    """Collects lists, to lay them out one after the other."""

    def __init__(self, first: FirstChecks) -> None:
        self._first = first
        self._entries: list[Int64s] = []
        self._size = 0

    def add(self, numbers: Int64s, entries: Int64s, *, count: int) -> Spans:
        """Add `count` lists, given as number of the list and entry; returns where each begins and ends.

        Inside a list, entries with the same attribute to check lie together, ascending by its lower bound.
        """
        order = np.lexsort((self._first.low[entries], self._first.attribute[entries], numbers))
        self._entries.append(np.asarray(entries, dtype=np.int64)[order])
        bounds = np.searchsorted(numbers[order], np.arange(count + 1)) + self._size
        self._size += len(entries)
        return np.stack([bounds[:-1], bounds[1:]], axis=1).astype(np.int32)

    def laid_out(self) -> tuple[Rows32, Int64s]:
        """By place in the lists: entry, attribute to check and whether more are; and the range to check."""
        entries = np.concatenate([np.empty(0, np.int64), *self._entries])
        first = self._first
        postings = np.stack([entries, first.attribute[entries], first.more[entries]], axis=1)
        return postings.astype(np.int32), np.stack([first.low[entries], first.high[entries]], axis=1)
