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
from itertools import chain, pairwise, takewhile
from math import prod
from typing import Any

from anabranch.exchange.set_cover import Covers, least_loaded

SEGMENT_BITS = 8
MOST_SEGMENTS = 1 << SEGMENT_BITS
"""Of a batch."""
USUAL_SELECTIVITY = 0.1
"""Of a predicate of which nothing is known."""
MOST_PROBES = 1e3
"""Joined rows for each row of a unit that count as load at most: estimates may be far off."""
OUT_OF_TURN = 1e3
"""How many times as loaded a place counts that is no lane any more, so that it dies out."""


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


def travelling(here: Sequence[int], after: Sequence[int]) -> float:
    """Places to which a row has to go on, that was made at any of `here`, to be at all of `after`.

    Equation 3 counts only places that are not among `here`. But a row that was made at one of these is not at
    the others, and has to meet the units there, too; sent as printed, results are lost.

    >>> travelling((1, 2), (1, 2)), travelling((1, 2), (3,))
    (1.0, 1.0)
    """
    return len(after) - len(set(after) & set(here)) / max(1, len(here))


def _bits(flags: Iterable[bool]) -> int:
    """As bits of a number, the first as the lowest."""
    return sum(1 << i for i, flag in enumerate(flags) if flag)


class BatchPaths:
    """The paths of the units of one batch, worked out one after the other.

    Parameters
    ----------
    lanes
        Places that new rows may go to, whatever is there.
    loads
        Load value by place; what units add to it is counted on.
    watermarks
        By reference: no row that comes is older.
    unit_load
        What joining a unit adds to the load of one place.
    capacity
        By place, how much work it can do, where places differ.
    kind
        How covers are chosen; experiments take another way, to compare.
    """

    def __init__(
        self,
        table: CoordinatedTable,
        batch: int,
        *,
        lanes: Sequence[int],
        loads: Mapping[int, float],
        watermarks: Mapping[str, int | None],
        warm_up: int,
        unit_load: float = 1.0,
        capacity: Mapping[int, float] | None = None,
        kind: type[Covers] = Covers,
    ) -> None:
        self._table = table
        self._batch = batch
        self._lanes = tuple(lanes)
        self._warm_up = min(warm_up, len(self._lanes))
        self._unit_load = unit_load
        self._capacity = capacity or {}
        units = {s.alias: table.units.get(s.alias, ()) for s in table.streams}
        self._covers = {
            alias: kind({u.number: u.rows for u in its}, [u.places for u in its])
            for alias, its in units.items()
        }
        """By reference, what is where: earlier units, and those of this batch."""
        self._turn = frozenset(lanes)
        used = chain.from_iterable(covers.places() for covers in self._covers.values())
        self._loads = {p: max(loads.get(p, 0.0), 0.0) for p in (*self._lanes, *used)}
        for place in self._loads.keys() - self._turn:
            self._loads[place] = OUT_OF_TURN * (1 + self._loads[place])
        self._loads_in = [dict(self._loads) for _ in table.streams[1:]]
        """The same by hop: a step waits for the busiest place of each of them."""
        self._ranks = {s.alias: rank for rank, s in enumerate(table.streams)}
        self._results: dict[tuple[str, tuple[str, ...]], list[float]] = {}
        self._reached: dict[tuple[str, str], int] = {}
        """By origin and probed reference, the earlier units in reach."""
        for probed in table.streams:
            lasts = [unit.last for unit in table.units.get(probed.alias, ())]
            oldest = min(lasts, default=0)
            for origin in table.streams:
                watermark = watermarks.get(origin.alias)
                since = oldest if watermark is None else watermark - probed.window_us
                self._reached[origin.alias, probed.alias] = (
                    (1 << len(lasts)) - 1 if since <= oldest else _bits(last >= since for last in lasts)
                )

    @property
    def loads(self) -> dict[int, float]:
        """Load value by lane, with what the paths so far add."""
        return {place: self._loads[place] for place in self._lanes}

    def of_all(self, segments: Mapping[str, int]) -> dict[str, tuple[Path, ...]]:
        """By reference, in the order of ranks: the path of each of its segments."""
        return {
            s.alias: tuple(self.routed(s.alias, segment) for segment in range(segments[s.alias]))
            for s in self._table.streams
        }

    def routed(self, alias: str, segment: int) -> Path:
        """The path of a unit, by the join order with the least overhead. Units come by rank."""
        stream = next(s for s in self._table.streams if s.alias == alias)
        options = [self._tried(stream, order) for order in stream.orders]
        overhead, order, covers = min(options, key=lambda option: option[0])
        hops = []
        results = self._results_of(alias, order)
        for number, (probed, places) in enumerate(zip(order, covers, strict=True) if all(covers) else ()):
            needed, work = self._needed(alias, probed), self._unit_load * min(results[number], MOST_PROBES)
            if number == 0:
                places = self._stored(places)
            joined = self._covers[probed].joined(needed, places, self._loads_in[number], work)
            hops.append(Hop(probed, joined))
            self._count(number, probed, joined, work)
        path = Path(self._stored(covers[0]), tuple(hops), overhead)
        last = self._table.units.get(alias, ())[-1:]
        rows = last[0].rows if last else 1
        self._covers[alias].add(unit_number(self._batch, segment), path.places, rows)
        return path

    def _needed(self, alias: str, probed: str) -> int:
        """Units that a unit covers: earlier ones in reach, and those of its batch with a lower rank."""
        earlier = self._reached[alias, probed]
        if self._ranks[probed] > self._ranks[alias]:
            return earlier
        known = len(self._table.units.get(probed, ()))
        return earlier | (self._covers[probed].everything() >> known << known)

    def _results_of(self, alias: str, order: tuple[str, ...]) -> list[float]:
        """Rows before and behind each hop; the same for all units of a reference."""
        if (alias, order) not in self._results:
            self._results[alias, order] = self._table.results_of(alias, order)
        return self._results[alias, order]

    def _tried(
        self, stream: Stream, order: tuple[str, ...]
    ) -> tuple[float, tuple[str, ...], list[tuple[int, ...]]]:
        """Overhead of a join order, and its covers: those of a hop reuse the places of the hop before."""
        covers: list[tuple[int, ...]] = []
        before: tuple[int, ...] = ()
        for probed, loads in zip(order, self._loads_in, strict=True):
            before = self._covers[probed].cover(self._needed(stream.alias, probed), before, loads)
            covers.append(before)
        results = self._results_of(stream.alias, order)
        overhead = len(self._stored(covers[0])) - 1.0
        for rows, (here, after) in zip(results[1:], pairwise(covers), strict=False):
            overhead += rows * travelling(here, after)
        return overhead, order, covers

    def _stored(self, cover: tuple[int, ...]) -> tuple[int, ...]:
        """The places of a first hop, filled up by load alone while the table asks for few."""
        have = len(self._turn.intersection(cover))
        if have >= self._warm_up:
            return cover
        idle = (place for place in self._lanes if place not in cover)
        return (*cover, *least_loaded(idle, self._loads, self._warm_up - have))

    def _count(self, hop: int, probed: str, joined: Mapping[int, frozenset[int]], work: float) -> None:
        """Count what a hop adds to the load of its places."""
        rows = self._covers[probed].rows
        parts = {place: sum(map(rows.__getitem__, units)) for place, units in joined.items()}
        total = max(1, sum(parts.values()))
        for place, part in parts.items():
            added = work * part / total / self._capacity.get(place, 1.0)
            self._loads_in[hop][place] += added
            self._loads[place] += added
