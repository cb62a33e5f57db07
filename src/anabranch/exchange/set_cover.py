"""Greedy weighted set cover: places that together have all of some things, at little load.

Sets are bits of whole numbers: what a cover takes does not grow with the things, for a few hundred of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import compress, cycle

EPSILON = 1e-9
"""So that of places without any load the one that covers most comes first."""


class Covers:
    """Which places have which things; things are numbered in the order in which they come.

    >>> here = Covers()
    >>> for thing, places in ((7, (1, 2)), (8, (2,)), (9, (3,))):
    ...     here.add(thing, places)
    >>> here.cover(0b111, (), {1: 0.1, 2: 0.1, 3: 5.0})
    (2, 3)
    >>> here.cover(0b111, (1,), {1: 0.1, 2: 0.1, 3: 5.0})
    (1, 2, 3)
    """

    def __init__(self, rows: Mapping[int, int] | None = None, places: Iterable[Sequence[int]] = ()) -> None:
        self.rows = dict(rows or {})
        """By thing, how much of it there is."""
        self._names = list(self.rows)
        self._at: dict[int, int] = {}
        """By place, the bits of what it has."""
        at, bit = self._at, 1
        for its in places:  # once for each thing in each batch: nothing is called here
            for place in its:
                at[place] = at[place] | bit if place in at else bit
            bit <<= 1

    def add(self, name: int, places: Sequence[int], rows: int = 1) -> None:
        bit = 1 << len(self._names)
        self._names.append(name)
        self.rows[name] = rows
        for place in places:
            self._at[place] = self._at.get(place, 0) | bit

    def places(self) -> Iterable[int]:
        """All that have something."""
        return self._at

    def everything(self) -> int:
        """The bits of all things."""
        return (1 << len(self._names)) - 1

    def cover(self, needed: int, before: Iterable[int], loads: Mapping[int, float]) -> tuple[int, ...]:
        """Places that have all that is needed.

        Those of the hop before come first, as far as they have some of it: what is there need not travel.
        Then each time the one with the least load for each thing that it adds.
        """
        chosen = []
        for place in before:
            if has := self._at.get(place, 0) & needed:
                chosen.append(place)
                needed &= ~has
        left = {place: bits for place, bits in self._at.items() if bits & needed} if needed else {}
        while needed:
            best, least = -1, float("inf")
            for place, bits in left.items():
                if gain := (bits & needed).bit_count():
                    price = (loads.get(place, 0.0) + EPSILON) / gain
                    if price < least or (price == least and place < best):
                        best, least = place, price
            chosen.append(best)
            needed &= ~left.pop(best)
        return tuple(chosen)

    def joined(
        self, needed: int, places: Sequence[int], loads: Mapping[int, float], work: float = 1.0
    ) -> dict[int, frozenset[int]]:
        """One place of a cover for each thing, so that their loads become as even as they can.

        Parameters
        ----------
        work
            What all of them add to the load.
        """
        parts = _even(tuple(places), needed.bit_count(), loads, work / max(1, needed.bit_count()))
        here = {place: self._at.get(place, 0) & needed for place in places}
        mine = dict.fromkeys(places, 0)
        left = needed
        # Those that have the least to choose from choose first, each up to its part.
        for place in sorted(places, key=lambda place: here[place].bit_count()):
            mine[place] = lowest_bits(left & here[place], parts.get(place, 0))
            left &= ~mine[place]
        for place in places:  # parts are not everywhere possible
            mine[place] |= left & here[place]
            left &= ~mine[place]
        return {place: frozenset(self._names_of(things)) for place, things in mine.items() if things}

    def _names_of(self, things: int) -> Iterator[int]:
        """Of bits; without a step of Python for each."""
        return compress(self._names, map("1".__eq__, bin(things)[:1:-1]))


def lowest_bits(bits: int, number: int) -> int:
    """The first of some bits.

    >>> bin(lowest_bits(0b101101, 2)), bin(lowest_bits(0b101, 9)), lowest_bits(0b1, 0)
    ('0b101', '0b101', 0)
    """
    if bits.bit_count() <= number:
        return bits
    low, high = 0, bits.bit_length()
    while high - low > 1:
        middle = (low + high) // 2
        if (bits & ((1 << middle) - 1)).bit_count() > number:
            high = middle
        else:
            low = middle
    return bits & ((1 << low) - 1)


def _even(places: tuple[int, ...], number: int, loads: Mapping[int, float], share: float) -> dict[int, int]:
    """How many of some equal things each place gets so that the most loaded has as little as can be.

    >>> _even((1, 2), 3, {1: 0.0, 2: 1.0}, 1.0)
    {1: 2, 2: 1}
    """
    if len(places) == 1 or share <= 0:
        return {places[0]: number} if places else {}
    total = sorted((loads.get(place, 0.0), place) for place in places)
    filled, below = len(total), sum(load for load, _ in total)
    while filled > 1 and filled * total[filled - 1][0] - below >= number * share:
        filled -= 1
        below -= total[filled][0]
    level = (below + number * share) / filled
    counts = {place: int((level - load) / share) for load, place in total[:filled]}
    for place in cycle(list(counts)):
        if sum(counts.values()) >= number:  # what rounding has left, one by one
            return counts
        counts[place] += 1
    raise AssertionError("there are places")


def least_loaded(places: Iterable[int], loads: Mapping[int, float], number: int) -> list[int]:
    """Some places with the least load."""
    return sorted(places, key=lambda place: (loads.get(place, 0.0), place))[:number]
