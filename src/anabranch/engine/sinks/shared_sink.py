"""Sinks that several queries share: one table for all of them, in which a column names the query of a row.

A sink is shared when several queries of a session name it, or when it is declared so (`ab.shared`, or the
option `shared` of INTO): then queries that come later can write to it, too. All have the same columns.
A query that has written to a sink alone keeps it alone: its files have no column `query`.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa
import xxhash

from anabranch.engine.sinks.sink import ResultBatch, Sink
from anabranch.errors import ConfigError
from anabranch.language.shared_columns import QUERY, not_alike
from anabranch.plan.logical import Connector, Query
from anabranch.state import Manifest

PREFIX = "shared."
"""Begins the names of places, under which their results are written: no query is called so."""


class SharedSink:
    """A sink that queries may share, although only one does so far."""

    def __init__(self, sink: Any) -> None:
        self.sink = sink

    @property
    def only_rows(self) -> bool:
        return bool(getattr(self.sink, "only_rows", False))

    def open(self, query: str, schema: pa.Schema) -> None:
        self.sink.open(query, schema)

    def publish(self, results: ResultBatch) -> None:
        self.sink.publish(results)


def shared(sink: Any) -> SharedSink:
    """A sink for several queries, also for such as come while a session runs: rows carry their query's name.

    Parameters
    ----------
    sink
        Any sink that a query may be given.

    Examples
    --------
    >>> from anabranch import memory
    >>> alerts = shared(memory())

    Then `run.add("large", "SELECT …", alerts)`, as often as there are alerts.
    """
    return sink if isinstance(sink, SharedSink) else SharedSink(sink)


def key_of(sink: Sink) -> Hashable:
    """What two sinks have in common that write to the same place."""
    inner = sink.sink if isinstance(sink, SharedSink) else sink
    found: Hashable = getattr(inner, "key", None)
    return ("object", id(inner)) if found is None else found


def placed(queries: Sequence[Query], sinks: Mapping[str, Sink], manifest: Manifest | None) -> list[Query]:
    """The queries of a session at its start, with the names of the places that some of them share.

    Parameters
    ----------
    sinks
        By query.
    manifest
        What the session goes on from: a place that was shared stays so, and keeps its name.
    """
    known: Mapping[str, Any] = manifest.catalog.get("queries", {}) if manifest else {}
    by_key: dict[Hashable, list[Query]] = {}
    for query in queries:
        by_key.setdefault(key_of(sinks[query.name]), []).append(query)
    names: dict[str, str] = {}
    taken: set[str] = set()
    for key, some in by_key.items():
        before = [known[q.name].get("place") for q in some if q.name in known]
        declared = isinstance(sinks[some[0].name], SharedSink)
        if len(some) == 1 and not declared and not any(before):
            continue
        alone = [q.name for q in some if q.name in known and known[q.name].get("place") is None]
        if alone:
            raise _written_alone(alone[0])
        check_alike(some, sinks)
        name = next((b for b in before if b and b not in taken), None) or _name(key, some[0])
        taken.add(name)
        names |= {q.name: name for q in some}
    return [replace(q, place=names[q.name]) if q.name in names else q for q in queries]


def placed_beside(query: Query, sink: Sink, beside: tuple[Query, Sink] | None) -> Query:
    """A query that comes while a session runs, with the name of the place that it shares.

    Parameters
    ----------
    beside
        A query that writes to the same place, and its sink.
    """
    if beside is None or beside[0].name == query.name:
        is_shared = isinstance(sink, SharedSink)
        return replace(query, place=_name(key_of(sink), query)) if is_shared else query
    other, its_sink = beside
    if other.place is None:
        raise _written_alone(other.name)
    check_alike([other, query], {other.name: its_sink, query.name: sink})
    return replace(query, place=other.place)


def check_alike(queries: Sequence[Query], sinks: Mapping[str, Sink]) -> None:
    """Refuse queries that cannot share a sink: they need the same columns and options."""
    first = queries[0]
    for query in queries:
        if (why := not_alike(first, query)) is not None:
            raise ConfigError(f"query {query.name!r} {': '.join(why)}")
        if _options(first, sinks) != _options(query, sinks):
            raise ConfigError(
                f"query {query.name!r} has other options for the sink that it shares with {first.name!r}: "
                "give both the same"
            )


def declared_shared(connector: Connector) -> tuple[Connector, bool]:
    """A connector without the option `shared`, and whether it said so."""
    asked = [value.lower() for name, value in connector.options if name.lower() == "shared"]
    if asked and asked[-1] not in ("true", "false"):
        raise ConfigError(f"shared = {asked[-1]!r}: choose from true, false")
    rest = tuple((name, value) for name, value in connector.options if name.lower() != "shared")
    return replace(connector, options=rest), asked[-1:] == ["true"]


def _written_alone(name: str) -> ConfigError:
    return ConfigError(
        f"query {name!r} has its sink alone, and its rows have no column {QUERY!r}: give the other query "
        "another sink, or declare this one shared from the start, with OPTIONS (shared = 'true') or "
        "ab.shared(…)"
    )


def _name(key: Hashable, first: Query) -> str:
    """Where a path or a topic tells places apart, the same in every session."""
    by_object = isinstance(key, tuple) and key[0] == "object"
    text = first.name if by_object else repr(key)
    return f"{PREFIX}{xxhash.xxh3_64_hexdigest(text.encode(errors='replace'))[:8]}"


def _options(query: Query, sinks: Mapping[str, Sink]) -> object:
    sink = sinks[query.name]
    inner = sink.sink if isinstance(sink, SharedSink) else sink
    given = () if query.sink is None else declared_shared(query.sink)[0].options
    compression = [value for name, value in given if name.lower() == "compression"]
    return getattr(inner, "options", None), compression
