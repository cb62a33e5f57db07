"""A table of values: which list an attribute's value leads to."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numba import njit

from anabranch.operators.filter.entry_arrays import EntryArrays
from anabranch.operators.filter.kernel import IN_SET, bucket_of, match_values
from anabranch.operators.filter.lists import Lists, Spans, splitters
from anabranch.operators.rows.arrays import Int64s

DENSE = 16
"""Slots per value up to which every value between the least and the largest gets a slot of its own."""
SMALL = 1 << 14
"""Slots that are always few enough for that."""


@dataclass(frozen=True, slots=True, eq=False)
class ValueTable:
    """The entries of one attribute that a single value leads to."""

    attribute: int
    base: int
    shift: int
    keys: Int64s
    slots: Spans
    splitters: Int64s

    @classmethod
    def of(cls, attribute: int, flat: EntryArrays, checks: Int64s, lists: Lists) -> ValueTable:
        """Table of the entries that these checks are of: points and sets."""
        values, owners = _values(flat, checks)
        distinct, place = np.unique(values, return_inverse=True)
        spans = lists.add(place, owners, count=len(distinct))
        least, span = int(distinct[0]), int(distinct[-1]) - int(distinct[0]) + 1
        if span <= DENSE * len(distinct) + SMALL:
            slots = np.zeros((span, 2), dtype=np.int32)
            slots[distinct - distinct[0]] = spans
            return cls(attribute, least, -1, np.zeros(1, np.int64), slots, splitters(distinct))
        bits = (4 * len(distinct) - 1).bit_length()
        keys, slots = np.zeros(1 << bits, dtype=np.int64), np.zeros((1 << bits, 2), dtype=np.int32)
        _insert(distinct, spans, 64 - bits, keys, slots)
        return cls(attribute, 0, 64 - bits, keys, slots, splitters(distinct))

    def match(self, first: int, *rows_and_room: Any) -> tuple[int, int]:
        """Match rows from the one at place `first` on."""
        found: tuple[int, int] = match_values(
            self.attribute, self.base, self.shift, self.keys, self.slots, first, *rows_and_room
        )
        return found


def _values(flat: EntryArrays, checks: Int64s) -> tuple[Int64s, Int64s]:
    """Values of entries, and whose each is: one of a point, several of a set."""
    is_set = flat.kind[checks] == IN_SET
    members = [(flat.entry[c], flat.sets[flat.low[c] : flat.high[c]]) for c in checks[is_set]]
    values = [flat.low[checks[~is_set]], *(values for _, values in members)]
    owners = [flat.entry[checks[~is_set]], *(np.full(len(values), e) for e, values in members)]
    return np.concatenate(values), np.concatenate(owners)


@njit(cache=True, nogil=True)
def _insert(distinct: Any, spans: Any, shift: Any, keys: Any, slots: Any) -> None:
    for i in range(len(distinct)):
        place = bucket_of(distinct[i], shift)
        while slots[place, 1] > 0:
            place = (place + 1) & (len(slots) - 1)
        keys[place] = distinct[i]
        slots[place] = spans[i]
