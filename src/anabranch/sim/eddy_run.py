"""An eddy over two stations on machines of their own (Zhou, COSMOS, section 5.4): the engine's own lottery.

Rows of a stream S come in at a source. Each needs two stations, R and T, in either order. The eddy at the
source sends vectors; stations report how many rows came of those that they got first, as virtual tuples.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from anabranch.adapt.eddy.account import Account
from anabranch.adapt.eddy.lottery import DecidedBy, Station, draw
from anabranch.adapt.measures.site_report import StationReport
from anabranch.sim.eddy_machines import AtTime, Clock, Server, Vector, steady

STATIONS = ("R", "T")
VECTOR_ROWS = 50
REPORT_ROWS = 100
"""Rows after which a station reports: the paper's threshold."""
FIRST_LOOK_ROWS = 200
"""Rows that a station gets before it has reported anything."""
FADE = 0.7
"""What is left of a past price when a vector comes back."""

Selectivity = Callable[[int], float]
"""By number of a row of S."""


@dataclass(frozen=True, slots=True)
class Setup:
    """Machines, links and rows.

    Attributes
    ----------
    selectivity
        By station: rows that come of a row there.
    machine_s, link_s
        By station: seconds per row of its machine, and of every output module that sends to it.
    """

    selectivity: dict[str, Selectivity]
    machine_s: dict[str, AtTime] = field(default_factory=lambda: dict.fromkeys(STATIONS, steady(0.0005)))
    link_s: dict[str, AtTime] = field(default_factory=lambda: dict.fromkeys(STATIONS, steady(0.0001)))
    rows: int = 100_000
    seed: int = 1


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a run took, and how rows were sent.

    Attributes
    ----------
    first
        By station, part of the rows that took it first.
    by
        By what decided, part of the rows.
    """

    seconds: float
    results: int
    first: dict[str, float]
    by: dict[DecidedBy, float]


def run_eddy(setup: Setup, *, always: str | None = None) -> Outcome:
    """Send all rows through both stations; with `always`, in a fixed order."""
    return _Run(setup, always).run()


class _Run:
    def __init__(self, setup: Setup, always: str | None) -> None:
        self._setup = setup
        self._always = always
        self._rng = np.random.default_rng(setup.seed)
        self._clock = Clock()
        self._sent = 0
        self._results = 0
        self._accounts = {name: Account.new(1) for name in STATIONS}
        self._seen = dict.fromkeys(STATIONS, (0, 0))
        self._row_s = dict.fromkeys(STATIONS, 0.0)
        self._last_back = dict.fromkeys(STATIONS, 0.0)
        self._first = dict.fromkeys(STATIONS, 0)
        self._by = dict.fromkeys(DecidedBy, 0)
        clock = self._clock
        self._machines = {name: Server(clock, setup.machine_s[name], self._worked(name)) for name in STATIONS}
        self._links = {
            (source, name): Server(clock, setup.link_s[name], self._arrives(name))
            for name in STATIONS
            for source in ("S", *STATIONS)
            if source != name
        }
        for name, machine in self._machines.items():
            machine.freed += [link.wake for (_, target), link in self._links.items() if target == name]
            self._links[name, _other(name)].freed.append(machine.wake)
            self._links["S", name].freed.append(self._send)

    def run(self) -> Outcome:
        self._clock.after(0.0, self._send)
        self._clock.run()
        total = max(1, self._sent)
        return Outcome(
            self._clock.now,
            self._results,
            {name: rows / total for name, rows in self._first.items()},
            {by: rows / total for by, rows in self._by.items() if rows},
        )

    def _send(self) -> None:
        """Send vectors as long as some way has room."""
        while self._sent < self._setup.rows:
            chosen = self._choose()
            if chosen is None:
                return
            name, by = chosen
            rows = min(VECTOR_ROWS, self._setup.rows - self._sent)
            vector = Vector(rows, name, self._sent, rows, self._clock.now)
            self._sent += rows
            self._first[name] += rows
            self._by[by] += rows
            self._links["S", name].take(vector)

    def _choose(self) -> tuple[str, DecidedBy] | None:
        """A station with room, if there is one that rows should go to; otherwise they wait.

        Where some station holds tickets, those without get what the lottery gives them and no more: they
        would send on more rows than came.
        """
        has_room = {name: self._links["S", name].has_room() for name in STATIONS}
        if self._always is not None:
            return (self._always, DecidedBy.NOTHING) if has_room[self._always] else None
        stations = {name: self._station(name) for name in STATIONS}
        unknown = [name for name in STATIONS if stations[name] is None]
        if unknown:  # a first look at each: what comes of it is not known yet, and may be much
            looked_at = [n for n in unknown if has_room[n] and self._first[n] < FIRST_LOOK_ROWS]
            return (looked_at[0], DecidedBy.NOTHING) if looked_at else None
        outcome = draw(list(stations.values()))
        lot = float(np.random.default_rng((self._setup.seed, self._sent)).random())
        for name, part in zip(STATIONS, outcome.drawn, strict=True):
            if lot < part and has_room[name]:
                return name, outcome.by
            lot -= part
        tickets = dict(zip(STATIONS, outcome.tickets, strict=True))
        vying = [name for name in STATIONS if tickets[name] > 0] or list(STATIONS)
        free = [name for name in vying if has_room[name]]
        if not free:
            return None
        by = DecidedBy.LOTTERY if len(vying) == 1 or len(free) > 1 else DecidedBy.BACK_PRESSURE
        return max(free, key=lambda name: _rank(stations[name])), (
            by if any(tickets.values()) else DecidedBy.BACK_PRESSURE
        )

    def _station(self, name: str) -> Station | None:
        account = self._accounts[name]
        least = min(self._row_s.values())
        if not account.is_known or not least:
            return None
        selectivity = float(account.selectivity(lifetime=0.0)[0])
        return Station.of(selectivity, pressure=self._row_s[name] / least)

    def _arrives(self, name: str) -> Callable[[Vector], bool]:
        return lambda vector: self._machines[name].take(vector, going_on=bool(vector.worked_at))

    def _worked(self, name: str) -> Callable[[Vector], bool]:
        """What a machine does with rows that it has worked on."""

        def done(vector: Vector) -> bool:
            if name not in vector.worked_at:  # not one that only waits for room behind
                expected = vector.rows * self._setup.selectivity[name](vector.number)
                vector.rows = int(self._rng.poisson(expected))
                vector.worked_at += (name,)
                if vector.first == name:
                    self._report(name, vector)
            if vector.first != name:
                self._results += vector.rows
                return True
            return not vector.rows or self._links[name, _other(name)].take(vector)

        return done

    def _report(self, name: str, vector: Vector) -> None:
        """Count virtual tuples, and what a row took: as long as the station was at it."""
        arrived, found = self._seen[name]
        arrived, found = arrived + vector.sent, found + vector.rows
        took = (self._clock.now - max(vector.sent_at, self._last_back[name])) / vector.sent
        self._last_back[name] = self._clock.now
        before = self._row_s[name]
        self._row_s[name] = took if not before else FADE * before + (1 - FADE) * took
        if arrived >= REPORT_ROWS or not self._accounts[name].is_known:
            report = StationReport.of_totals(arrived=arrived, found=found)
            self._accounts[name] = self._accounts[name].after(report)
            arrived = found = 0
            self._clock.after(0.0, self._send)  # it may think otherwise now
        self._seen[name] = arrived, found


def _rank(station: Station | None) -> float:
    return float("-inf") if station is None else float(station.rank[0])


def _other(name: str) -> str:
    return STATIONS[1 - STATIONS.index(name)]
