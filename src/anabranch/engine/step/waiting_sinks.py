"""Sinks that fail wait alone: what they have not taken is kept, and given again later, in order.

    publish fails ─► kept … ─► tried again after 1 s, 2 s, 4 s … ─► all taken, or so much that queries end

Everybody else goes on. A try that takes long is followed by a longer pause, so that a sink that hangs before
it fails holds up the others for a tenth of the time at most.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import pyarrow as pa

from anabranch.adapt.events import Event, EventKind
from anabranch.engine.settings import MEBIBYTE, Settings
from anabranch.engine.sinks.backlog import Backlog, Owed
from anabranch.engine.sinks.sink import ResultBatch, Sink
from anabranch.errors import ConfigError, ForeignResultsError
from anabranch.state.errors import CorruptionError, FencedError
from anabranch.state.paths import UNDELIVERED
from anabranch.state.storage import Storage

FIRST_PAUSE_S = 1.0
LONGEST_PAUSE_S = 60.0
SHARE = 9
"""The pause after a try that failed is so many times as long as the try at least."""
CATCH_UP_S = 2.0
"""How long a sink that works again is given what it has missed before the others have their turn."""
MOST_NAMES = 20
"""Queries that an event names: thousands may share a sink."""
NOT_THE_SINK = (ConfigError, CorruptionError, FencedError, ForeignResultsError, MemoryError)
"""What is no failure of a sink, but of the session or its checkpoint."""

SchemaOf = Callable[[str], pa.Schema]
"""The columns that an owner has now."""


@dataclass(frozen=True, slots=True)
class SinkWait:
    """A sink that has not taken what it was given.

    Attributes
    ----------
    why
        What it said last.
    tries, next_s
        How often it was tried in vain, and when it will be tried again.
    """

    why: str
    tries: int
    next_s: float


class WaitingSinks:
    """Gives results to sinks, and keeps for later what they do not take.

    Parameters
    ----------
    users
        The queries that write under the name of an owner.
    """

    def __init__(
        self,
        storage: Storage,
        settings: Settings,
        clock: Callable[[], float],
        users: Callable[[str], list[str]],
    ) -> None:
        self.settings = settings
        self.backlog = Backlog(storage)
        self.events: list[Event] = []
        """What has not been told yet."""
        self.failed: dict[str, str] = {}
        """Why queries are to end, by the owner of their results."""
        self._clock = clock
        self._users = users
        # What an earlier process could not deliver is tried at once.
        self._waits = {o: SinkWait(self.backlog.of(o)[-1].why, 0, 0.0) for o in self.backlog.owners}
        self._unopened: dict[str, pa.Schema] = {}

    @property
    def waits(self) -> Mapping[str, SinkWait]:
        """By owner, the sinks that wait."""
        return self._waits

    def is_due(self) -> bool:
        """Whether some sink is to be tried again."""
        now = self._clock()
        return any(wait.next_s <= now for wait in self._waits.values())

    def open(self, sink: Sink, owner: str, schema: pa.Schema, *, known: bool) -> None:
        """Open a sink at the start of a session; one that was open in an earlier one may wait.

        Parameters
        ----------
        known
            Whether an earlier session had it: else its user is there, and can mend what is wrong.
        """
        if not known:
            sink.open(owner, schema)
        elif not self._took(owner, -1, partial(sink.open, owner, schema)):
            self._unopened[owner] = schema

    def publish(self, sink: Sink, results: ResultBatch) -> None:
        """Give a sink the results of a step, or keep them until it has taken those before."""
        owner = results.query
        if owner in self._waits:
            if not results.files and getattr(sink, "only_rows", False):
                return
        elif self._took(owner, results.batch, partial(sink.publish, results)):
            return
        self.backlog.keep(results, self._waits[owner].why)
        self._check_room(owner)

    def try_again(self, sinks: Mapping[str, Sink], schema_of: SchemaOf, *, now: bool) -> None:
        """Give sinks what they have missed, those whose pause is over, or `now` all of them."""
        time_s = self._clock()
        for owner in [o for o, wait in self._waits.items() if now or wait.next_s <= time_s]:
            if owner in sinks:
                self._catch_up(owner, sinks[owner], schema_of)

    def forget(self, owner: str, sink: Sink | None, schema: pa.Schema) -> None:
        """Nobody writes to a sink any more: it is tried once more, if it is known, and then given up."""
        if sink is not None:
            self._catch_up(owner, sink, lambda _: schema, longest_s=float("inf"))
        if owner not in self._waits:
            return
        owed, last = self.backlog.of(owner), self._waits.pop(owner)
        self._unopened.pop(owner, None)
        if owed:
            rows, batch = sum(one.rows for one in owed), owed[-1].batch
            self._tell(
                EventKind.SINK_GIVEN_UP,
                owner,
                batch,
                f"its query is gone, and {rows:,} results were not taken: {last.why}. They stay in "
                f"{UNDELIVERED}/",
                rows=rows,
                files=[f"{UNDELIVERED}/{file.name}" for one in owed for file in one.files],
            )
        self.backlog.give_up(owner)

    def _catch_up(
        self, owner: str, sink: Sink, schema_of: SchemaOf, *, longest_s: float = CATCH_UP_S
    ) -> None:
        """Give a sink all that it has missed, as long as it takes it."""
        batch, rows, steps, began = -1, 0, 0, time.monotonic()
        if owner in self._unopened:
            if not self._took(owner, batch, partial(sink.open, owner, self._unopened[owner])):
                return
            del self._unopened[owner]
        while (owed := self._next_of(owner)) is not None:
            if time.monotonic() - began > longest_s:
                return
            batch = owed.batch
            results = owed.results(self.backlog.storage, schema_of(owner))
            if not self._took(owner, batch, partial(sink.publish, results)):
                return
            self.backlog.taken(owed)
            rows, steps = rows + owed.rows, steps + 1
        if self._waits.pop(owner, None) is not None:
            message = f"its sink works again and has taken {rows:,} results of {steps:,} steps that waited"
            self._tell(EventKind.SINK_RECOVERED, owner, batch, message, rows=rows, steps=steps)

    def _next_of(self, owner: str) -> Owed | None:
        """What a sink must be given next; damaged files are not given, and end their query."""
        try:
            return self.backlog.next_of(owner)
        except CorruptionError as error:
            self.failed[owner] = f"results that its sink had not taken are damaged, and it was ended: {error}"
            self.backlog.give_up(owner)
            del self._waits[owner]
            return None

    def _took(self, owner: str, batch: int, give: Callable[[], None]) -> bool:
        """Whether a sink does what it is asked; one that fails waits on."""
        began = time.monotonic()
        try:
            give()
        except NOT_THE_SINK:
            raise
        except Exception as error:
            if self.settings.sink_failures == "stop":
                raise
            self._put_off(owner, error, batch=batch, took_s=time.monotonic() - began)
            return False
        return True

    def _put_off(self, owner: str, error: Exception, *, batch: int, took_s: float) -> None:
        """Let a sink wait; it is told when it begins to."""
        known, why = self._waits.get(owner), reason(error)
        tries = known.tries + 1 if known else 1
        pause_s = max(min(FIRST_PAUSE_S * 2.0 ** min(tries - 1, 30), LONGEST_PAUSE_S), SHARE * took_s)
        self._waits[owner] = SinkWait(why, tries, self._clock() + pause_s)
        if known is None:
            message = f"its sink failed and waits alone: {why}. Results are kept, and given to it in order"
            self._tell(EventKind.SINK_FAILED, owner, batch, message, reason=why)

    def _check_room(self, owner: str) -> None:
        """End the queries of a sink for which too much waits."""
        if owner in self.failed:
            return
        owed, settings = self.backlog.of(owner), self.settings
        mib, steps = sum(one.bytes for one in owed) / MEBIBYTE, len(owed)
        why, kept = self._waits[owner].why, f"{sum(one.rows for one in owed):,} results of {steps:,} steps"
        where = f"kept in {UNDELIVERED}/ and given to it when it works again"
        if settings.sink_failures == "end":
            more = "mend the sink and start the query under a new name"
        elif 0 < settings.sink_backlog_mb < mib:
            more = _advice("sink_backlog_mb", settings.sink_backlog_mb)
        elif 0 < settings.sink_backlog_steps < steps:
            more = _advice("sink_backlog_steps", settings.sink_backlog_steps)
        else:
            return
        self.failed[owner] = f"its sink failed and it was ended: {why}. {kept} are {where}: {more}"

    def _tell(self, kind: EventKind, owner: str, batch: int, message: str, **data: object) -> None:
        users = self._users(owner)
        self.events.append(
            Event(batch, kind, f"{_named(users, owner)}: {message}", {"queries": users[:MOST_NAMES], **data})
        )


def reason(error: Exception) -> str:
    """What a sink says is wrong, in one line."""
    return (str(error).strip().splitlines() or [type(error).__name__])[0]


def _advice(setting: str, value: int) -> str:
    return (
        f"more than {setting} = {value} allows. Mend the sink, or let more wait (SET {setting}), and start "
        "the query under a new name"
    )


def _named(users: Sequence[str], owner: str) -> str:
    if not users:
        return owner
    more = f" and {len(users) - 3} more" if len(users) > 3 else ""
    return f"{'query' if len(users) == 1 else 'queries'} {', '.join(map(repr, users[:3]))}{more}"
