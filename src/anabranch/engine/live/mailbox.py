"""The mailbox of a checkpoint: how another process asks a running session for queries to come and go.

A letter is a file under a name that nobody else uses. The session reads the box before every step; the
manifest of the step that carries a letter out has its name and the answer, so that it is carried out exactly
once: a letter that the newest manifest names is thrown away after a crash, any other is still to be read.
Nothing listens on a port, and letters wait while no session runs.
"""

from __future__ import annotations

import json
import secrets
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from anabranch.errors import ConfigError
from anabranch.language.flow import bind_query
from anabranch.plan.logical import Connector, Stream
from anabranch.queries.catalog import Catalog
from anabranch.queries.turnover import Add, Change, Drop, Replace
from anabranch.state.paths import ANSWERS, MAILBOX
from anabranch.state.storage import Storage

KEPT_ANSWERS = 100
ACTIONS = ("add", "drop", "replace")


@dataclass(frozen=True, slots=True)
class Letter:
    """What somebody asks for.

    Attributes
    ----------
    action
        One of `ACTIONS`.
    select, sink
        Of a query that comes, or changes.
    """

    action: str
    query: str
    select: str = ""
    sink: Connector | None = None

    def to_json(self) -> dict[str, Any]:
        sink = self.sink
        return {
            "action": self.action,
            "query": self.query,
            "select": self.select,
            "sink": None if sink is None else [sink.format, sink.path, [list(o) for o in sink.options]],
        }


def post(storage: Storage, letter: Letter) -> str:
    """Put a letter into the box; returns its name, by which the answer is found."""
    data = json.dumps(letter.to_json()).encode()
    name = f"{time.time_ns():020d}-{secrets.token_hex(6)}"
    storage.put_if_absent(f"{MAILBOX}/{name}", data)
    return name


def await_answer(storage: Storage, name: str, *, timeout_s: float, poll_s: float = 0.1) -> bool:
    """Wait until a session has done what a letter asks for; False if none has read it in time.

    Raises
    ------
    ConfigError
        The session has refused.
    """
    end = time.monotonic() + timeout_s
    while True:
        try:
            refusal = storage.read(f"{ANSWERS}/{name}").decode()
        except FileNotFoundError:
            if time.monotonic() >= end:
                return False
            time.sleep(poll_s)
            continue
        if refusal:
            raise ConfigError(refusal)
        return True


def letters(storage: Storage) -> list[str]:
    """Names of the letters in the box, the oldest first."""
    return [name.removeprefix(f"{MAILBOX}/") for name in storage.list(MAILBOX)]


def opened(storage: Storage, name: str) -> Letter:
    """Read a letter.

    Raises
    ------
    ConfigError
        It is none.
    """
    try:
        told = json.loads(storage.read(f"{MAILBOX}/{name}"))
        sink = told["sink"]
        connector = None if sink is None else Connector(sink[0], sink[1], tuple((k, v) for k, v in sink[2]))
        letter = Letter(str(told["action"]), str(told["query"]), str(told["select"]), connector)
    except (ValueError, KeyError, TypeError, IndexError) as error:
        raise ConfigError(f"the letter {name} cannot be read: {error!r}") from error
    if letter.action not in ACTIONS:
        raise ConfigError(f"the letter {name} asks for {letter.action!r}: choose from {', '.join(ACTIONS)}")
    return letter


def change_of(letter: Letter, catalog: Catalog, streams: Mapping[str, Stream]) -> Change:
    """What a letter asks for, bound to the streams of a session."""
    if letter.action == "drop":
        return Drop(letter.query)
    if letter.action == "add":
        return Add(bind_query(letter.query, letter.select, streams, sink=letter.sink))
    sinks = {query.name: query.sink for query in catalog.answered}
    return Replace(bind_query(letter.query, letter.select, streams, sink=sinks.get(letter.query)))


def answer(storage: Storage, mail: Iterable[tuple[str, str]]) -> None:
    """Tell senders what a published step has done, and throw their letters away."""
    answered = False
    for name, refusal in mail:
        storage.put_if_absent(f"{ANSWERS}/{name}", refusal.encode(), durable=False)
        storage.delete(f"{MAILBOX}/{name}")
        answered = True
    if answered:
        for old in storage.list(ANSWERS)[:-KEPT_ANSWERS]:
            storage.delete(old)
