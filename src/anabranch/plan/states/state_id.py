"""State ids: which rows a state has, named by content.

Streams, filters, keys, windows and predicates make the name, never a query. So equal fragments of two queries
have one state, without anyone arranging it. An id is a text, for manifests, file names and the way between
slots; it is put together and taken apart here alone.

    stream:orders#1f0c…                         rows of a stream
    waiting:orders#1f0c…                        rows that wait to enter it
    join:orders.payments#77ab…                  rows of a join
    join:orders.payments#77ab…[since=8]         those of a track that began in batch 8
    join:orders.payments#77ab…[until=8]         those that a track has made since its end was set to batch 8
"""

from __future__ import annotations

import re
from enum import StrEnum

import xxhash

_TEXT = re.compile(r"(?P<kind>\w+):(?P<label>.*)#(?P<content>[0-9a-f]{16})(?P<life>\[.*\])?", re.DOTALL)


class StateKind(StrEnum):
    """What the rows of a state are."""

    STREAM = "stream"
    """Rows of a stream, as one input brings them."""
    WAITING = "waiting"
    """Rows that wait to enter a stream's state."""
    JOIN = "join"
    """Rows of a join of some references of a query."""
    STATION = "station"
    """Rows of such a join that have arrived at a station."""
    RESULTS = "results"
    """What a query groups: results of its join, or rows that windows are made of."""
    TRAVELLING = "travelling"
    """Rows of a join on their path (`coordinated_run`): no state keeps them beyond their batch."""


class StateId(str):
    """The id of a state.

    >>> state = StateId.of(StateKind.STREAM, "orders", ("amount > 5", "key"))
    >>> state.kind, state.waiting.kind, state.waiting.entered == state
    (<StateKind.STREAM: 'stream'>, <StateKind.WAITING: 'waiting'>, True)
    """

    __slots__ = ()

    @classmethod
    def of(cls, kind: StateKind, label: str, content: object) -> StateId:
        """Name a state.

        Parameters
        ----------
        label
            For people.
        content
            What decides the rows, with a `repr` that says all of it.
        """
        return cls(f"{kind}:{label}#{xxhash.xxh3_64_hexdigest(repr(content).encode())}")

    @property
    def kind(self) -> StateKind:
        return StateKind(self.partition(":")[0])

    @property
    def waiting(self) -> StateId:
        """The state of rows that wait to enter this one."""
        return StateId(f"{StateKind.WAITING}:{self.partition(':')[2]}")

    @property
    def entered(self) -> StateId:
        """The state that waiting rows will enter."""
        return StateId(f"{StateKind.STREAM}:{self.partition(':')[2]}")

    @property
    def is_waiting(self) -> bool:
        return self.startswith(f"{StateKind.WAITING}:")

    @property
    def label(self) -> str:
        """What people call it.

        >>> StateId.of(StateKind.JOIN, "orders.payments", ()).of_track(since=8).label
        'orders.payments'
        """
        found = _TEXT.fullmatch(self)
        return self if found is None else found["label"]

    def of_track(self, *, since: int = 0, until: int | None = None, fresh: bool = False) -> StateId:
        """The part of this state that belongs to a track alone.

        Parameters
        ----------
        since
            The batch in which the track began; 0 if it has no state of its own.
        until
            The batch in which a newer one began: rows that it has made since then.
        fresh
            Of these, the rows that are new throughout.

        >>> str(StateId("join:a.b#0123456789abcdef").of_track(since=3, until=8, fresh=True))
        'join:a.b#0123456789abcdef[since=3,until=8,fresh]'
        """
        life = [f"since={since}"] if since else []
        life += [] if until is None else [f"until={until}"]
        life += ["fresh"] if fresh else []
        return StateId(f"{self}[{','.join(life)}]") if life else self


KEEPS_NOTHING = StateId("")
"""In the place of a state, of a node whose rows are results or go on."""
