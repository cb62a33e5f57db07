"""Coordinated routing (CTR): a table of what is where, and the path of every unit through it (Gu, Yu, Wang,
section 4).

What is routed as a whole is a *unit*: the rows of a reference, a segment and a batch. A path that is frozen
for a segment misses rows that come between its first row and its last. A unit covers all earlier units in its
reach, and those of its own batch with a lower rank of their reference; so of two units one always looks for
the other, and only one.

    unit of a ──► V1: units of b in reach ──► V2: units of c in reach
                  rows stored at all of V1     results of a and b travel, and are stored nowhere

Each unit that a hop covers has one place that joins it, however many have its rows: no group is found twice.
Places are partitions: who owns them does not matter for what is found.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import takewhile
from math import prod
from typing import Any

SEGMENT_BITS = 8
MOST_SEGMENTS = 1 << SEGMENT_BITS
"""Of a batch."""
USUAL_SELECTIVITY = 0.1
"""Of a predicate of which nothing is known."""


def unit_number(batch: int, segment: int) -> int:
    """The number of a unit among those of its reference: ascending by batch."""
    return batch << SEGMENT_BITS | segment


@dataclass(frozen=True, slots=True)
class Stream:
    """A reference of the join: its window, its rows per second, and join orders that begin with it.

    Its place among the references is its rank.
    """

    alias: str
    window_us: int
    rate: float = 1.0
    orders: tuple[tuple[str, ...], ...] = ()


@dataclass(frozen=True, slots=True)
class Unit:
    """Rows of a reference that came in one batch and segment, from `first` to `last`, and where they are."""

    number: int
    places: tuple[int, ...]
    first: int
    last: int
    rows: int


@dataclass(frozen=True, slots=True)
class Hop:
    """One hop of a path: the reference that is probed, and which of its units are joined at each place."""

    alias: str
    joined: Mapping[int, frozenset[int]]


@dataclass(frozen=True, slots=True)
class Path:
    """The way of a unit.

    Attributes
    ----------
    places
        Where its rows are stored: those of the first hop, and more while the table warms up.
    hops
        None where some reference has nothing in reach.
    overhead
        Rows that travel for each of its rows, beside itself (equation 3).
    """

    places: tuple[int, ...]
    hops: tuple[Hop, ...]
    overhead: float


@dataclass(frozen=True, slots=True)
class CoordinatedTable:
    """Where the rows of each unit are.

    Attributes
    ----------
    units
        By reference, in the order of their numbers.
    selectivity
        By references that a predicate is about, the share of pairs that match.
    linked
        By reference, those that some predicate or key joins with it.
    """

    streams: tuple[Stream, ...]
    units: Mapping[str, tuple[Unit, ...]] = field(default_factory=dict)
    selectivity: Mapping[frozenset[str], float] = field(default_factory=dict)
    linked: Mapping[str, frozenset[str]] = field(default_factory=dict)
    _reached: dict[str, tuple[float, float]] = field(
        default_factory=dict, init=False, compare=False, repr=False
    )

    def added(self, new: Mapping[str, Sequence[Unit]]) -> CoordinatedTable:
        """The table with units of a later batch."""
        units = {s.alias: (*self.units.get(s.alias, ()), *new.get(s.alias, ())) for s in self.streams}
        return CoordinatedTable(self.streams, units, self.selectivity, self.linked)

    def without_before(self, watermarks: Mapping[str, int | None]) -> CoordinatedTable:
        """The table without units that no row can reach any more."""
        units = {}
        for stream in self.streams:
            others = [watermarks.get(s.alias) for s in self.streams if s is not stream]
            bound = -1 if None in others else min((m for m in others if m is not None), default=-1)
            kept = (u for u in self.units.get(stream.alias, ()) if u.last + stream.window_us >= bound)
            units[stream.alias] = tuple(kept)
        return CoordinatedTable(self.streams, units, self.selectivity, self.linked)

    def used(self) -> frozenset[int]:
        """All places that have rows."""
        return frozenset(place for units in self.units.values() for unit in units for place in unit.places)

    def matching(self, inside: Iterable[str], probed: str) -> float:
        """The share of pairs that match when some references meet another one."""
        near = self.linked.get(probed, frozenset()) & frozenset(inside)
        if not near:
            return 1.0
        known = self.selectivity.get(near | {probed})
        if known is not None:
            return known
        return prod(self.selectivity.get(frozenset((alias, probed)), USUAL_SELECTIVITY) for alias in near)

    def results_of(self, origin: str, order: Sequence[str]) -> list[float]:
        """Rows that there are for one row of the origin before each hop, and behind the last."""
        found, inside = [1.0], {origin}
        ranks = {s.alias: rank for rank, s in enumerate(self.streams)}
        for alias in order:
            earlier, of_a_batch = self._rows_of(alias)
            met = earlier + (of_a_batch if ranks[alias] < ranks[origin] else 0.0)
            found.append(found[-1] * self.matching(inside, alias) * met)
            inside.add(alias)
        return found

    def _rows_of(self, alias: str) -> tuple[float, float]:
        """Rows of a reference that a row looks at: all that are kept, and, by its rank, those of its batch.

        Those are more than a window has: units stay until no late row can reach them.
        """
        if alias not in self._reached:
            units = self.units.get(alias, ())
            first = unit_number(units[-1].number >> SEGMENT_BITS, 0) if units else 0
            newest = takewhile(lambda unit: unit.number >= first, reversed(units))
            stream = next(s for s in self.streams if s.alias == alias)
            usual = stream.rate * stream.window_us / 1e6
            known = sum([u.rows for u in units]), sum([u.rows for u in newest])
            self._reached[alias] = known if units else (usual, 0.0)
        return self._reached[alias]

    def to_json(self) -> dict[str, Any]:
        return {
            alias: [[u.number, list(u.places), u.first, u.last, u.rows] for u in units]
            for alias, units in self.units.items()
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any], streams: Sequence[Stream]) -> CoordinatedTable:
        known = {
            alias: tuple(Unit(n, tuple(p), f, la, r) for n, p, f, la, r in its) for alias, its in data.items()
        }
        return cls(tuple(streams), known)
