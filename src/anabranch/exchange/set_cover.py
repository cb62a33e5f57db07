"""Greedy weighted set cover: places that together have all of some things, at little load.

Sets are bits of whole numbers: what a cover takes does not grow with the things, for a few hundred of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

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

    def __init__(self) -> None:
        self._names: list[int] = []
        self._places: list[tuple[int, ...]] = []
        self._at: dict[int, int] = {}
        """By place, the bits of what it has."""
        self.rows: dict[int, int] = {}
        """By thing, how much of it there is."""

    def add(self, name: int, places: Sequence[int], rows: int = 1) -> None:
        bit = 1 << len(self._names)
        self._names.append(name)
        self._places.append(tuple(places))
        self.rows[name] = rows
        for place in places:
            self._at[place] = self._at.get(place, 0) | bit

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
        """One place of a cover for each thing: the least loaded by then of those that have it.

        Parameters
        ----------
        work
            What all of them add to the load.
        """
        chosen = set(places)
        found: dict[int, list[int]] = {place: [] for place in places}
        share = work / max(1, needed.bit_count())
        total = {place: loads.get(place, 0.0) for place in places}
        while needed:
            low = needed & -needed
            needed ^= low
            thing = low.bit_length() - 1
            at = min((p for p in self._places[thing] if p in chosen), key=total.__getitem__)
            total[at] += share
            found[at].append(self._names[thing])
        return {place: frozenset(things) for place, things in found.items() if things}


def least_loaded(places: Iterable[int], loads: Mapping[int, float], number: int) -> list[int]:
    """Some places with the least load."""
    return sorted(places, key=lambda place: (loads.get(place, 0.0), place))[:number]
