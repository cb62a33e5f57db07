"""Machines and links between which an eddy sends rows: speeds and delays differ, queues are bounded.

    source ─► link ─► machine ─► link ─► machine ─► results

Rows that have been elsewhere have a queue of their own, so that two machines which wait for each other's room
never stand still. What finds no room waits, and holds up who sent it: back-pressure.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

AtTime = Callable[[float], float]
"""A quantity that may change with time."""

QUEUE_ROWS = 200
"""Room of a link, and of a machine for rows of either kind."""


def steady(value: float) -> AtTime:
    return lambda _: value


@dataclass(slots=True)
class Vector:
    """Rows that travel together.

    Attributes
    ----------
    first
        The station that they take first.
    number
        Of its first row among those of the source.
    sent
        Rows that left the source.
    """

    rows: int
    first: str
    number: int
    sent: int
    sent_at: float
    worked_at: tuple[str, ...] = ()


class Clock:
    """Events in the order of their time."""

    def __init__(self) -> None:
        self.now = 0.0
        self._events: list[tuple[float, int, Callable[[], None]]] = []
        self._count = 0

    def after(self, seconds: float, event: Callable[[], None]) -> None:
        self._count += 1
        heapq.heappush(self._events, (self.now + seconds, self._count, event))

    def run(self) -> None:
        while self._events:
            self.now, _, event = heapq.heappop(self._events)
            event()


@dataclass(eq=False)
class Server:
    """One thing after the other, each row taking its time; a machine, or the output module of a link.

    Attributes
    ----------
    row_s
        Seconds per row.
    done
        What happens with a vector that is finished; False if there is no room for it yet.
    """

    clock: Clock
    row_s: AtTime
    done: Callable[[Vector], bool]
    waits: deque[Vector] = field(default_factory=deque)
    """First rows, which wait for room behind them."""
    goes_on: deque[Vector] = field(default_factory=deque)
    """Rows that have been elsewhere."""
    freed: list[Callable[[], None]] = field(default_factory=list)
    """Who is told when there is room."""
    busy_s: float = 0.0
    _busy: bool = False
    _held: Vector | None = None
    _ahead: int = 0
    """Rows by which those that have been elsewhere are ahead: the two kinds take turns, row by row."""

    def has_room(self, *, going_on: bool = False) -> bool:
        return sum(v.rows for v in (self.goes_on if going_on else self.waits)) < QUEUE_ROWS

    def take(self, vector: Vector, *, going_on: bool = False) -> bool:
        """Put a vector into the queue, if there is room."""
        if not self.has_room(going_on=going_on):
            return False
        (self.goes_on if going_on else self.waits).append(vector)
        self._start()
        return True

    def wake(self) -> None:
        """There may be room behind."""
        if self._held is not None and self.done(self._held):
            self._held = None
        self._start()

    def _start(self) -> None:
        if self._busy:
            return
        may_begin = self.waits and self._held is None
        if not (self.goes_on and may_begin):
            self._ahead = 0
        if self.goes_on and not (may_begin and self._ahead > 0):
            vector = self.goes_on.popleft()
            self._ahead += vector.rows
        elif may_begin:
            vector = self.waits.popleft()
            self._ahead -= vector.rows
        else:
            return
        self._busy = True
        took = vector.rows * self.row_s(self.clock.now)
        self.busy_s += took
        self.clock.after(took, lambda: self._finish(vector))
        for tell in self.freed:
            tell()

    def _finish(self, vector: Vector) -> None:
        self._busy = False
        if not self.done(vector):
            self._held = vector
        self._start()
