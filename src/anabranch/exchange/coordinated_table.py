"""Coordinated routing (CTR): a table of what is where, and the path of every unit through it (Gu, Yu, Wang,
section 4).

What is routed as a whole is a *unit*: the rows of a stream, a segment and a batch. A path that is frozen for
a segment misses rows that come between its first row and its last. A unit covers all earlier units in its
reach, and those of its own batch with a lower rank of their stream; so of two units one always looks for the
other, and only one.

    unit of a ──► V1: units of b in reach ──► V2: units of c in reach
                  rows stored at all of V1     results of a and b travel, and are stored nowhere

Each unit that a hop covers has one site that joins it, however many have its rows: no group is found twice.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise, permutations

from anabranch.exchange.set_cover import greedy_cover

WARM_UP_SITES = 2
"""Sites that get a unit at least, as long as the table has nothing that asks for more."""
MOST_ORDERS = 24
"""Join orders that are tried."""


@dataclass(frozen=True, slots=True)
class Stream:
    """A reference of the join: its rank among those of a batch, its window and its rows per second."""

    alias: str
    rank: int
    window_us: int
    rate: float = 1.0


@dataclass(frozen=True, slots=True)
class Unit:
    """Rows of a stream from `[start, end)` that came in one batch."""

    alias: str
    start: int
    end: int
    batch: int


@dataclass(frozen=True, slots=True)
class Hop:
    """One hop of a path: the sites of a stream's units, and which of them joins each unit."""

    alias: str
    sites: tuple[int, ...]
    joined_at: Mapping[Unit, int]


@dataclass(frozen=True, slots=True)
class Path:
    """The hops of a unit, and the rows that travel beside its own, by equation 3."""

    hops: tuple[Hop, ...]
    overhead: float


@dataclass(frozen=True, slots=True)
class CoordinatedTable:
    """Where the rows of each unit are.

    Attributes
    ----------
    selectivity
        By pair of streams, the share of pairs that match; 1 where nothing is known.
    """

    streams: tuple[Stream, ...]
    placed: Mapping[Unit, tuple[int, ...]]
    selectivity: Mapping[frozenset[str], float]

    @classmethod
    def empty(
        cls, streams: Sequence[Stream], selectivity: Mapping[frozenset[str], float] | None = None
    ) -> CoordinatedTable:
        return cls(tuple(streams), {}, selectivity or {})

    def routed(self, unit: Unit, loads: Mapping[int, float]) -> tuple[CoordinatedTable, Path]:
        """The path of a unit, and the table with its rows.

        Units come by (batch, rank). Of all join orders the one with the least overhead is taken.
        """
        others = [s.alias for s in self.streams if s.alias != unit.alias]
        orders = [order for order, _ in zip(permutations(others), range(MOST_ORDERS), strict=False)]
        paths = (self._path(unit, order, loads) for order in orders)
        path = min(paths, key=lambda p: p.overhead)
        return CoordinatedTable(
            self.streams, {**self.placed, unit: path.hops[0].sites}, self.selectivity
        ), path

    def in_reach(self, unit: Unit, alias: str) -> list[Unit]:
        """Units of another stream that a unit covers."""
        mine, theirs = self._stream(unit.alias), self._stream(alias)
        begin, end = unit.start - theirs.window_us, unit.end + mine.window_us
        return [
            u
            for u in self.placed
            if u.alias == alias
            and (u.batch, theirs.rank) < (unit.batch, mine.rank)
            and u.start < end
            and u.end > begin
        ]

    def without_before(self, watermarks: Mapping[str, int]) -> CoordinatedTable:
        """The table without units that no row can reach any more."""
        kept = {unit: sites for unit, sites in self.placed.items() if not self._may_go(unit, watermarks)}
        return CoordinatedTable(self.streams, kept, self.selectivity)

    def _may_go(self, unit: Unit, watermarks: Mapping[str, int]) -> bool:
        reach = unit.end + self._stream(unit.alias).window_us
        return all(reach <= mark for alias, mark in watermarks.items() if alias != unit.alias)

    def _stream(self, alias: str) -> Stream:
        return next(s for s in self.streams if s.alias == alias)

    def _path(self, unit: Unit, order: Sequence[str], loads: Mapping[int, float]) -> Path:
        hops: list[Hop] = []
        before: tuple[int, ...] = ()
        for alias in order:
            hop = self._hop(self.in_reach(unit, alias), alias, before, loads)
            if not hops:
                hop = Hop(alias, _warmed_up(hop.sites, loads), hop.joined_at)
            hops.append(hop)
            before = hop.sites
        return Path(tuple(hops), self._overhead(unit.alias, hops))

    def _hop(
        self, units: Iterable[Unit], alias: str, before: tuple[int, ...], loads: Mapping[int, float]
    ) -> Hop:
        """Sites that have all of the units: those where the rows are already first, then as few as can be."""
        places = {unit: self.placed[unit] for unit in units}
        reused = {
            u: s for u, sites in places.items() if (s := _least(set(sites) & set(before), loads)) is not None
        }
        rest = {unit: sites for unit, sites in places.items() if unit not in reused}
        cover = greedy_cover(rest, loads)
        joined = {unit: _least(set(sites) & set(cover), loads) for unit, sites in rest.items()}
        at = reused | {unit: site for unit, site in joined.items() if site is not None}
        return Hop(alias, tuple(dict.fromkeys((*sorted(set(reused.values())), *cover))), at)

    def _overhead(self, alias: str, hops: Sequence[Hop]) -> float:
        """Rows that travel for one row of the unit: copies, and intermediate results (equation 3)."""
        total, results, before = len(hops[0].sites) - 1.0, 1.0, alias
        for here, after in pairwise(hops):
            stream = self._stream(here.alias)
            matching = self.selectivity.get(frozenset((before, here.alias)), 1.0)
            results *= matching * stream.rate * stream.window_us / 1e6
            total += results * len(set(after.sites) - set(here.sites))
            before = here.alias
        return total


def _least(sites: Iterable[int], loads: Mapping[int, float]) -> int | None:
    """The least loaded of some sites."""
    return min(sites, key=lambda s: (loads.get(s, 0.0), s), default=None)


def _warmed_up(sites: tuple[int, ...], loads: Mapping[int, float]) -> tuple[int, ...]:
    """The sites of a first hop, filled up by load alone while the table asks for few."""
    idle = sorted((load, site) for site, load in loads.items() if site not in sites)
    return (*sites, *(site for _, site in idle[: max(0, WARM_UP_SITES - len(sites))]))
