"""The orders that a process has built on rows: those used longest ago go when all take up too much."""

from __future__ import annotations

import weakref
from collections import OrderedDict

from anabranch.operators.rows.arrays import Int64s, Rows32


class Indexes(dict[tuple[str, ...], tuple[Int64s, Rows32]]):
    """By columns: hashes in ascending order, and the rows behind them."""

    __slots__ = ("__weakref__",)


class IndexMemory:
    """Counts indexes as long as their rows are there, and forgets some when they are too many.

    What is forgotten is built again when it is wanted: slower, with memory that holds.

    Attributes
    ----------
    budget
        Bytes of all indexes; None is any number.
    """

    def __init__(self) -> None:
        self.budget: int | None = None
        self.total = 0
        self._known: OrderedDict[int, tuple[weakref.ref[Indexes], int]] = OrderedDict()

    def used(self, indexes: Indexes) -> None:
        """Take note that an index was probed."""
        self._known.move_to_end(id(indexes))

    def built(self, indexes: Indexes) -> None:
        """Take note of a new index, and make room for it."""
        key = id(indexes)
        size = sum(hashes.nbytes + rows.nbytes for hashes, rows in indexes.values())
        self._drop(key)
        self._known[key] = weakref.ref(indexes, lambda _: self._drop(key)), size
        self.total += size
        while self.budget is not None and self.total > self.budget and len(self._known) > 1:
            oldest = next(iter(self._known))
            found = self._known[oldest][0]()
            self._drop(oldest)
            if found is not None:
                found.clear()

    def _drop(self, key: int) -> None:
        if key in self._known:
            self.total -= self._known.pop(key)[1]


INDEX_MEMORY = IndexMemory()
"""That of this process, which works for one slot at a time."""
SHARE = 0.5
"""Of the budget of a slot's work, what orders of kept rows may take."""


def bound_indexes(work_memory: int | None) -> None:
    """Let orders take up a part of what a slot's work may, or any number of bytes."""
    INDEX_MEMORY.budget = None if work_memory is None else int(SHARE * work_memory)
