"""Load diffusion on simulated sites (Gu, Yu, Wang, section 5): the engine's own tables and routers.

Rows come as a Poisson process, second by second. Sites receive and send rows and look for pairs of rows; all
of it takes CPU time. A site may be behind for as long as a run takes; the part of its work that it has no
time for is shed. Pairs are counted, not found: a pair matches with a given probability. Throughput is the
share of the results that is found.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations, islice, permutations

import numpy as np
import numpy.typing as npt

from anabranch.adapt.routing.coordinated_state import segments_of, warm_up_places
from anabranch.adapt.routing.overhead import StreamRate, best_master
from anabranch.exchange.aligned_router import AlignedRouter, AlignedTable, Member
from anabranch.exchange.batch_paths import BatchPaths
from anabranch.exchange.coordinated_table import (
    CoordinatedTable,
    Path,
    Stream,
    Unit,
    unit_number,
)

RECEIVE_MS = SEND_MS = 1.0
PROBE_MS, USUAL_WINDOW_S = 10.0, 30.0
"""To look through a window of so many seconds."""
MEAN_MIPS = 3000.0
"""The machine on which these times were taken."""
SECOND_US = 1_000_000
CARRIED = 0.5
Floats = npt.NDArray[np.float64]
Rate = Callable[[int], float]
"""Rows per second, by second."""


@dataclass(frozen=True, slots=True)
class Setup:
    """A join and the sites it runs on.

    Attributes
    ----------
    rates
        Of every stream.
    matching
        The share of pairs of rows that match.
    mips
        What each site can do.
    segment_s
        Length of segments of aligned routing.
    """

    rates: tuple[Rate, ...]
    window_s: int
    matching: float
    mips: tuple[float, ...]
    segment_s: float = 4.0
    seconds: int = 240
    seed: int = 1

    @property
    def aliases(self) -> str:
        return "abcdef"[: len(self.rates)]

    @property
    def capacity(self) -> Floats:
        """Milliseconds of a mean machine that each site has in a second."""
        return np.array(self.mips) / MEAN_MIPS * 1000.0

    def mean_rates(self) -> dict[str, float]:
        """Rows per second by stream, as they would be measured."""
        by_alias = zip(self.aliases, self.rates, strict=True)
        return {alias: float(np.mean([rate(s) for s in range(120)])) for alias, rate in by_alias}

    @property
    def pair_ms(self) -> float:
        """Time to look at a pair of rows."""
        rates = list(self.mean_rates().values())
        return PROBE_MS / (sum(rates) / len(rates) * USUAL_WINDOW_S)

    def arrivals(self) -> npt.NDArray[np.int64]:
        """Rows by second and stream, the filling of windows before."""
        draw = np.random.default_rng(self.seed)
        seconds = range(self.window_s + self.seconds)
        return np.array([[draw.poisson(rate(s)) for rate in self.rates] for s in seconds])


@dataclass(slots=True)
class Outcome:
    """What a run did after its windows had filled.

    Attributes
    ----------
    throughput
        Share of the results that was found.
    sent, copied
        Rows per second that were sent, and those beside the first copies.
    """

    throughput: float = 0.0
    sent: float = 0.0
    copied: float = 0.0


@dataclass(slots=True)
class Second:
    """Work of one second by site, in milliseconds of a mean machine, and results that hang on it."""

    work: Floats
    results: list[tuple[int, int, float]] = field(default_factory=list)
    """Sites of the first and of the last probe, and the results."""
    sent: float = 0.0
    copied: float = 0.0


RunSecond = Callable[[int, npt.NDArray[np.int64]], Second]
"""Takes the number of a second and its rows by stream."""


def simulate(setup: Setup, second: RunSecond) -> Outcome:
    """Run a router second by second."""
    outcome, measured = Outcome(), list[Second]()
    for number, came in enumerate(setup.arrivals()):
        did = second(number, came)
        if number >= setup.window_s:
            measured.append(did)
            outcome.sent += did.sent / setup.seconds
            outcome.copied += did.copied / setup.seconds
    work = np.sum([did.work for did in measured], axis=0)
    done = np.minimum(1.0, setup.capacity[: len(work)] * setup.seconds / np.maximum(work, 1e-9))
    results = [result for did in measured for result in did.results]
    # Rows that are shed at a first hop are no work for the next one.
    found = sum(float(min(done[a], done[b])) * n for a, b, n in results)
    outcome.throughput = found / sum(n for _, _, n in results)
    return outcome


class AlignedSites:
    """Aligned routing: segments of the master take turns, by what sites can do.

    Parameters
    ----------
    optimised
        With the best master and the given length; else with the worst master and a quarter of it, for sites
        in a fixed order.
    """

    def __init__(self, setup: Setup, *, optimised: bool = True) -> None:
        self._setup = setup
        rates, window_us = setup.mean_rates(), setup.window_s * SECOND_US
        streams = {a: StreamRate(rate, float(setup.window_s)) for a, rate in rates.items()}
        length = int(setup.segment_s * SECOND_US / (1 if optimised else 4))
        self.master = best_master(streams) if optimised else min(rates, key=rates.__getitem__)
        members = tuple(Member(a, i, window_us) for i, a in enumerate(setup.aliases))
        cycle = turns_by_capacity(setup.mips) if optimised else list(range(len(setup.mips)))
        self._router = AlignedRouter(members, AlignedTable.single(self.master, length, cycle))
        self._kept: dict[str, list[Floats]] = {a: [] for a in setup.aliases}
        """By stream, rows of each second of the window at every site."""

    def second(self, number: int, came: npt.NDArray[np.int64]) -> Second:
        setup, sites = self._setup, Second(np.zeros(len(self._setup.mips)))
        new: dict[str, Floats] = {}
        draw = np.random.default_rng((setup.seed, number))
        for member, rows in zip(self._router.members, came.tolist(), strict=True):
            times = number * SECOND_US + np.sort(draw.integers(0, SECOND_US, rows))
            _, partitions = self._router.copies(member, times)
            new[member.alias] = np.bincount(partitions, minlength=len(setup.mips)).astype(float)
            sites.copied += len(partitions) - rows
            sites.sent += len(partitions)
        kept = {a: np.sum(its, axis=0) if its else np.zeros(len(setup.mips)) for a, its in self._kept.items()}
        for alias, rows in new.items():
            sites.work += rows * RECEIVE_MS
            order = [self.master, *(a for a in setup.aliases if a not in (alias, self.master))]
            order = [a for a in order if a != alias]
            reached = rows.copy()
            for probed in order:
                pairs = reached * kept[probed]
                sites.work += setup.pair_ms * pairs
                reached = pairs * setup.matching
            for site in np.flatnonzero(reached).tolist():
                sites.results.append((site, site, float(reached[site])))
        for alias, rows in new.items():
            self._kept[alias].append(rows)
            del self._kept[alias][: -setup.window_s]
        return sites


class CoordinatedSites:
    """Coordinated routing: the engine's table, and the paths of a second's units.

    Parameters
    ----------
    at_random
        Covers are of places at random: what the paper compares with.
    """

    def __init__(self, setup: Setup, *, at_random: bool = False) -> None:
        self._setup = setup
        self._at_random = random.Random(7) if at_random else None
        self._table = coordinated_table(setup)
        self._loads: dict[int, float] = {}
        self.cover: list[int] = []
        """Places of each unit."""

    def second(self, number: int, came: npt.NDArray[np.int64]) -> Second:
        setup, lanes, at = self._setup, range(len(self._setup.mips)), number * SECOND_US
        marks: dict[str, int | None] = dict.fromkeys(setup.aliases, at)
        capacity = {p: mips / MEAN_MIPS for p, mips in enumerate(setup.mips)}
        here = BatchPaths(
            self._table,
            number,
            lanes=lanes,
            loads=self._loads,
            watermarks=marks,
            warm_up=warm_up_places(len(lanes)),
            capacity=capacity,
            at_random=self._at_random,
        )
        segments = segments_of(len(lanes))
        paths = here.of_all(dict.fromkeys(setup.aliases, segments))
        least = min(here.loads.values())
        self._loads = {place: CARRIED * (load - least) for place, load in here.loads.items()}
        sites, units = Second(np.zeros(len(setup.mips))), dict[str, list[Unit]]()
        stored = {a: {u.number: u.rows for u in self._table.units.get(a, ())} for a in setup.aliases}
        for alias, rows in zip(setup.aliases, came.tolist(), strict=True):
            for segment, path in enumerate(paths[alias]):
                mine = rows // segments + (segment < rows % segments)
                if mine:
                    self._take(sites, path, mine, stored)
                    unit = Unit(unit_number(number, segment), path.places, at, at, mine)
                    units.setdefault(alias, []).append(unit)
                    stored[alias][unit.number] = mine
                    self.cover.append(len(path.places))
        self._table = self._table.added(units).without_before(marks)
        return sites

    def _take(self, sites: Second, path: Path, rows: int, stored: Mapping[str, Mapping[int, int]]) -> None:
        """A unit on its path: rows are received and stored, then look for others, hop by hop."""
        sites.copied += rows * (len(path.places) - 1)
        sites.sent += rows * len(path.places)
        for place in path.places:
            sites.work[place] += rows * RECEIVE_MS
        made: dict[int, float] = {}
        first: dict[int, float] = {}
        for number, hop in enumerate(path.hops):
            probing = float(rows) if number == 0 else sum(made.values())
            found = {}
            for place, units in hop.joined.items():
                if number:
                    travelled = probing - made.get(place, 0.0)
                    sites.work[place] += travelled * RECEIVE_MS
                    sites.sent += travelled
                    sites.copied += travelled
                pairs = probing * sum(stored[hop.alias].get(unit, 0) for unit in units)
                sites.work[place] += self._setup.pair_ms * pairs
                found[place] = pairs * self._setup.matching
            if number:
                for place, results in made.items():
                    sites.work[place] += results * len(hop.joined.keys() - {place}) * SEND_MS
            else:
                first = found
            made = found
        whole = sum(first.values()) or 1.0
        for place, results in made.items():
            for origin, part in first.items():
                sites.results.append((origin, place, results * part / whole))


def one_join_per_site(setup: Setup, _: int, came: npt.NDArray[np.int64]) -> Second:
    """Joins of a tree on a site each, which is all that operators alone can be spread over."""
    sites = Second(np.zeros(len(setup.rates) - 1))
    window = [rate * setup.window_s for rate in setup.mean_rates().values()]
    for rows in came.tolist():
        reached = float(rows)
        for number, probed in enumerate(window[1:]):
            sites.work[number] += reached * RECEIVE_MS + setup.pair_ms * reached * probed
            reached *= probed * setup.matching
        sites.sent += rows
        sites.results.append((0, len(window) - 2, reached))
    return sites


def coordinated_table(setup: Setup) -> CoordinatedTable:
    """The table of a join in which a row matches a row of the next stream, whatever the order."""
    rates, window_us = setup.mean_rates(), setup.window_s * SECOND_US
    names = setup.aliases
    orders = {a: tuple(islice(permutations(o for o in names if o != a), 2)) for a in names}
    streams = tuple(Stream(a, window_us, rates[a], orders[a]) for a in names)
    linked = {a: frozenset(names) - {a} for a in names}
    about = (frozenset(some) for n in range(2, len(names) + 1) for some in combinations(names, n))
    return CoordinatedTable(streams, {}, dict.fromkeys(about, setup.matching), linked)


def turns_by_capacity(mips: Sequence[float]) -> list[int]:
    """Sites in the order in which they get segments: always the one with the least load for its capacity."""
    load, order = np.zeros(len(mips)), list[int]()
    for _ in range(2 * len(mips)):
        site = int(np.argmin((load + 1) / np.array(mips)))
        load[site] += 1
        order.append(site)
    return order
