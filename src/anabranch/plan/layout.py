"""From queries to inputs: what ingest sends, how it is routed, and which state keeps it.

An *input* is a stream seen through one filter and one routing key. References of any query that
agree on these share the input, and with it the rows on the wire and the state. A query added to an
existing checkpoint gets inputs of its own (`since`), so that it starts from an empty window.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import xxhash

from anabranch.plan.graph import JoinGraph
from anabranch.plan.logical import Field, Grouping, Query, Ref

HASH = "h"
"""Column of the routing hash, by which every block is sorted."""
TIME = "ts"
"""Column of the event time of a stream's row, in microseconds."""
MAX_TIME = "max_ts"
"""Column of the largest event time in an intermediate row."""
SEQUENCE = "sequence"
"""Column that orders rows of equal time by arrival, in inputs of `[ROWS n]` windows."""
DEADLINE = "deadline"
"""Column of min(ts_i + W_i) in an intermediate row: it joins nothing newer than that."""

WIDE_TYPES = ("string", "binary", "decimal")
"""Key types that do not fit the 64 bits of their hash, so that equal hashes are no proof."""


@dataclass(frozen=True, slots=True)
class Route:
    """How an input's rows find their partition: by the hash of keys, all to one place, or anywhere."""

    keys: tuple[Field, ...]
    pin: int | None = None
    """Without keys: the hash that all rows get, or None when they may be spread at will."""
    null_safe: bool = False
    """Whether rows with NULL keys are kept, as a group of their own."""


@dataclass(frozen=True, slots=True)
class Input:
    id: int
    state: str
    stream: str
    filter: str | None
    route: Route
    keys: tuple[Field, ...]
    """Keys whose own hash travels with the row, beside the routing hash."""
    fields: tuple[Field, ...]
    sequenced: bool = False
    """Whether rows carry the order of their arrival."""


@dataclass(frozen=True, slots=True)
class RoutedQuery:
    """A query with the inputs its references read and the classes it is partitioned on."""

    query: Query
    graph: JoinGraph
    since: int
    inputs: tuple[int, ...]
    """Input id per reference."""
    routing: tuple[int, ...]
    """Key classes it is partitioned on; empty when it runs on one site."""

    def input_of(self, alias: str) -> int:
        return self.inputs[self.graph.aliases.index(alias)]


@dataclass(frozen=True, slots=True)
class Layout:
    inputs: tuple[Input, ...]
    queries: tuple[RoutedQuery, ...]


def field_column(field: Field) -> str:
    """Name of a field's column in blocks: stable when queries come and go."""
    return f"{field.sql}::{field.type}"


def key_hash_column(field: Field) -> str:
    return f"hash({field_column(field)})"


def is_wide(key_type: str) -> bool:
    return key_type.startswith(WIDE_TYPES)


def layout_of(queries: Iterable[Query], since: Mapping[str, int]) -> Layout:
    """Lay out the queries of a session.

    Parameters
    ----------
    queries
        The queries, in the order in which they were registered.
    since
        The batch from which each query counts, by name; 0 when missing.
    """
    inputs: dict[str, Input] = {}
    routed = []
    for query in queries:
        graph = JoinGraph.of(query)
        routing = _routing(query, graph)
        ids = []
        for ref in query.refs:
            wanted = _input_for(query, ref, routing, since.get(query.name, 0), len(inputs))
            known = inputs.get(wanted.state)
            inputs[wanted.state] = wanted if known is None else _merge(known, wanted)
            ids.append(inputs[wanted.state].id)
        routed.append(RoutedQuery(query, graph, since.get(query.name, 0), tuple(ids), routing))
    return Layout(tuple(inputs.values()), tuple(routed))


def _routing(query: Query, graph: JoinGraph) -> tuple[int, ...]:
    """Classes to partition on. A group above a join must not be torn: its keys have to fix them."""
    shared = graph.routing_classes()
    if query.grouping is None or len(query.refs) == 1:
        return shared
    return tuple(c for c in shared if c in query.grouping.classes)


def _input_for(query: Query, ref: Ref, routing: tuple[int, ...], since: int, next_id: int) -> Input:
    key_of = {
        i: member.field
        for i, c in enumerate(query.classes)
        for member in c.members
        if member.alias == ref.alias
    }
    grouping = query.grouping if len(query.refs) == 1 else None
    if grouping is not None:
        route = _grouped_route(query, grouping)
    elif routing or len(query.refs) == 1:
        route = Route(tuple(key_of[i] for i in routing))
    else:
        route = Route((), pin=_signed(xxhash.xxh3_64_intdigest(query.name.encode())))
    # A single routing key travels as the routing hash itself.
    keys = tuple(f for f in dict.fromkeys(key_of.values()) if route.keys != (f,))
    wide = tuple(f for f in key_of.values() if is_wide(f.type))
    identity = repr((ref.filter, [field_column(f) for f in route.keys], route.pin, since))
    sequenced = grouping is not None and grouping.rows is not None
    if grouping is not None:
        identity += f" grouped, {sequenced=}"
    return Input(
        id=next_id,
        state=f"{ref.stream}-{xxhash.xxh3_64_hexdigest(identity.encode())[:8]}",
        stream=ref.stream,
        filter=ref.filter,
        route=route,
        keys=keys,
        fields=tuple(dict.fromkeys(ref.fields + wide)),
        sequenced=sequenced,
    )


def _grouped_route(query: Query, grouping: Grouping) -> Route:
    """By the hash of all group keys together; the one group of a query without keys has one place."""
    if grouping.keys:
        return Route(tuple(k.hashed for k in grouping.keys), null_safe=True)
    return Route((), pin=_signed(xxhash.xxh3_64_intdigest(query.name.encode())))


def _merge(known: Input, wanted: Input) -> Input:
    return Input(
        id=known.id,
        state=known.state,
        stream=known.stream,
        filter=known.filter,
        route=known.route,
        keys=tuple(dict.fromkeys(known.keys + wanted.keys)),
        fields=tuple(dict.fromkeys(known.fields + wanted.fields)),
        sequenced=known.sequenced,
    )


def _signed(value: int) -> int:
    return value - (1 << 64) if value >= 1 << 63 else value
