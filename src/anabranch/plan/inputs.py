"""From queries to inputs: what ingest sends, how it is routed, and which state keeps it.

An *input* is a stream seen through one filter and one routing key. References of any query that
agree on these share the input, and with it the rows on the wire and the state. A query added to an
existing checkpoint gets inputs of its own (`since`), so that it starts from an empty window.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial

import xxhash

from anabranch.plan.graph import JoinGraph
from anabranch.plan.logical import UNBOUNDED_US, Field, Grouping, Query, Ref
from anabranch.plan.states.shared_states import SharedStates
from anabranch.plan.states.state_id import StateId, StateKind
from anabranch.plan.stations.join_tree import EdgeEnds, JoinTree, candidate_edges

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
    required: tuple[Field, ...] = ()
    """Further keys without which a row is no use."""


@dataclass(frozen=True, slots=True)
class Input:
    id: int
    state: StateId
    stream: str
    filter: str | None
    route: Route
    keys: tuple[Field, ...]
    """Keys whose own hash travels with the row, beside the routing hash."""
    fields: tuple[Field, ...]
    sequenced: bool = False
    """Whether rows carry the order of their arrival."""
    stateless: bool = False
    """Whether no query keeps its rows: then none is refused because it is late."""
    alternatives: tuple[StateId, ...] = ()
    """States of all inputs of which each row goes to one, this one among them."""

    @property
    def is_sent(self) -> bool:
        """Whether ingest sends rows to it; rows for another alternative are redirected on their way."""
        return not self.alternatives or self.alternatives[0] == self.state


@dataclass(frozen=True, slots=True)
class RoutedQuery:
    """A query with the inputs its references read and the classes it is partitioned on."""

    query: Query
    graph: JoinGraph
    since: int
    inputs: tuple[int, ...]
    """Input id per reference."""
    routing: tuple[int, ...]
    """Key classes it is partitioned on; empty when its join runs on one site."""
    regrouped: bool = False
    """Whether results of the join leave its partition for that of their group."""
    tree: JoinTree | None = None
    """Of a join without a key that all streams share: its stations."""
    at_edges: Mapping[tuple[str, int], int] = field(default_factory=dict)
    """With stations: input id by reference and edge."""
    laid: int = 0
    """The batch from which on it is laid out so, if it was laid out otherwise before."""
    edges: tuple[EdgeEnds, ...] = ()
    """Edges that its stations have, or would have; if there are none, those that look best at first."""

    @property
    def is_aligned(self) -> bool:
        """Whether rows go by their times: no key brings together the rows of a result."""
        refs = self.query.refs
        bounded = all(ref.window_us < UNBOUNDED_US for ref in refs)
        # Rows that were at stations before are all in one place.
        return len(refs) > 1 and not self.routing and self.tree is None and bounded and not self.laid

    @property
    def has_cycles(self) -> bool:
        """Whether it could have other stations: its equalities, which no key is in all of, make a cycle."""
        if len(self.query.refs) < 3 or self.graph.routing_classes():
            return False
        pairs = {edge[:2] for edge in candidate_edges(self.graph)}
        return len(pairs) >= len(self.query.refs) and tree_of(self.query, self.graph) is not None

    @property
    def is_hashed(self) -> bool:
        """Whether it is a join that is partitioned by keys that all streams share."""
        return len(self.query.refs) > 1 and bool(self.routing)

    @property
    def placed_by(self) -> tuple[int, ...]:
        """Key classes by which its results have their partition, where these are the same for all of them."""
        if self.tree is None:
            return self.routing
        classes = {edge.key_class for edge in self.tree.edges}
        return tuple(classes) if len(classes) == 1 else ()

    def input_of(self, alias: str) -> int:
        return self.inputs[self.graph.aliases.index(alias)]

    def input_at(self, alias: str, edge: int) -> int:
        """Input of the rows of a reference that arrive at a station first."""
        return self.at_edges[alias, edge]


@dataclass(frozen=True, slots=True)
class Layout:
    inputs: tuple[Input, ...]
    queries: tuple[RoutedQuery, ...]
    shared: SharedStates = field(default_factory=SharedStates)
    """Intermediate states that several queries could read."""


def field_column(field: Field) -> str:
    """Name of a field's column in blocks: stable when queries come and go."""
    return f"{field.sql}::{field.type}"


def key_hash_column(field: Field) -> str:
    return f"hash({field_column(field)})"


def is_wide(key_type: str) -> bool:
    return key_type.startswith(WIDE_TYPES)


def layout_of(
    queries: Iterable[Query],
    since: Mapping[str, int],
    stations: Mapping[str, bool] | None = None,
    laid: Mapping[str, int] | None = None,
    edges: Mapping[str, tuple[EdgeEnds, ...]] | None = None,
) -> Layout:
    """Lay out the queries of a session.

    Parameters
    ----------
    queries
        The queries, in the order in which they were registered.
    since
        The batch from which each query counts, by name; 0 when missing.
    stations
        By name, whether a join runs at stations; if missing, it does where no key is shared by all streams.
    laid
        By name, the batch from which on a query is laid out so, if it was laid out otherwise before.
    edges
        By name, those that the stations of a join have, where they were chosen.
    """
    inputs: dict[StateId, Input] = {}
    routed = []
    for query in queries:
        graph = JoinGraph.of(query)
        routing, regrouped = _routing(query, graph)
        chosen = (edges or {}).get(query.name, ())
        tree = tree_of(query, graph, chosen) if (stations or {}).get(query.name, not routing) else None
        routing = () if tree is not None else routing
        began, anew = since.get(query.name, 0), (laid or {}).get(query.name, 0)
        at_edges: dict[tuple[str, int], int] = {}
        ids = []
        for ref in query.refs:
            if tree is None:
                wanted = [_input_for(query, ref, routing, began, anew)]
            else:
                wanted = _station_inputs(query, ref, tree, began, anew)
            found = [_added(inputs, source) for source in wanted]
            ids.append(found[0])
            if tree is not None:
                numbers = (edge.number for edge in tree.edges_of(ref.alias))
                at_edges |= {(ref.alias, edge): number for edge, number in zip(numbers, found, strict=True)}
        routed.append(
            RoutedQuery(
                query, graph, began, tuple(ids), routing, regrouped, tree, at_edges, anew, tuple(chosen)
            )
        )
    return Layout(tuple(inputs.values()), tuple(routed))


def tree_of(query: Query, graph: JoinGraph, chosen: tuple[EdgeEnds, ...] = ()) -> JoinTree | None:
    """The tree of a query's stations; None where equalities do not connect all its references.

    Where all share a key, there has to be a choice, and one key by which rows are addressed either way.

    Parameters
    ----------
    chosen
        Its edges, where these were chosen by what they cost.
    """
    routing, _ = _routing(query, graph)
    if len(query.refs) < (3 if routing else 2) or len(routing) > 1:
        return None
    if chosen:
        return JoinTree.along(graph, chosen)
    return JoinTree.of(graph, partial(_edge_cost, query), only=routing)


def _edge_cost(query: Query, left: str, right: str, key_class: int) -> tuple[float, ...]:
    """What is known of an edge before any row has come: keys to be compared in full, rows that can meet."""
    windows = sum(ref.window_us for ref in query.refs if ref.alias in (left, right))
    return is_wide(query.classes[key_class].type), windows


def _added(inputs: dict[StateId, Input], wanted: Input) -> int:
    """Number of an input, which is added or widened as is needed."""
    known = inputs.get(wanted.state)
    inputs[wanted.state] = replace(wanted, id=len(inputs)) if known is None else _merge(known, wanted)
    return inputs[wanted.state].id


def _routing(query: Query, graph: JoinGraph) -> tuple[tuple[int, ...], bool]:
    """Classes to partition on, and whether groups above the join are partitioned otherwise.

    Where group keys fix a class that all streams share, groups stay where the join makes their rows.
    """
    shared = graph.routing_classes()
    if query.grouping is None or len(query.refs) == 1:
        return shared, False
    fixed = tuple(c for c in shared if c in query.grouping.classes)
    return (fixed, False) if fixed else (shared, True)


def _laid_out(query: Query, ref: Ref, laid: int) -> str:
    """What keeps the states of a query apart from others, and from its own before it was laid out anew."""
    return f" {query.name} {ref.alias} laid out in {laid}" if laid else ""


def _input_for(query: Query, ref: Ref, routing: tuple[int, ...], since: int, laid: int) -> Input:
    key_of = _keys_of(query, ref)
    grouping = query.grouping if len(query.refs) == 1 else None
    if grouping is not None:
        route = _grouped_route(query, grouping)
    elif routing or len(query.refs) == 1:
        route = Route(tuple(key_of[i] for i in routing))
    else:
        # NULL equals nothing. At stations such rows have no address, so that a tree does without them, too.
        required = tuple(dict.fromkeys(key_of.values()))
        route = Route((), pin=_signed(xxhash.xxh3_64_intdigest(query.name.encode())), required=required)
    # A single routing key travels as the routing hash itself.
    keys = tuple(f for f in dict.fromkeys(key_of.values()) if route.keys != (f,))
    wide = tuple(f for f in key_of.values() if is_wide(f.type))
    identity = repr((ref.filter, [field_column(f) for f in route.keys], route.pin, since))
    if route.pin is not None and len(query.refs) > 1:
        identity += f" {ref.alias}"  # each reference of a join goes its own ways
    identity += _laid_out(query, ref, laid)
    sequenced = grouping is not None and grouping.rows is not None
    if grouping is not None:
        identity += f" grouped, {sequenced=}"
    return Input(
        id=-1,
        state=StateId.of(StateKind.STREAM, ref.stream, identity),
        stream=ref.stream,
        filter=ref.filter,
        route=route,
        keys=keys,
        fields=tuple(dict.fromkeys(ref.fields + wide)),
        sequenced=sequenced,
        stateless=query.stateless,
    )


def _station_inputs(query: Query, ref: Ref, tree: JoinTree, since: int, laid: int) -> list[Input]:
    """An input for every station at which rows of a reference may arrive first.

    All of them travel alike, so that a row is redirected by its tag and address alone.
    """
    key_of, edges = _keys_of(query, ref), tree.edges_of(ref.alias)
    routes = [key_of[edge.key_class] for edge in edges]
    keys = tuple(dict.fromkeys(key_of.values()))
    # A key that all stations share is the address at each of them: rows travel as they do for a join tree.
    alone = {edge.key_class for edge in tree.edges} == {edges[0].key_class}
    wide = tuple(f for f in keys if is_wide(f.type))
    described = (ref.filter, [field_column(f) for f in (*routes, *keys)], since, "stations")
    content = [(described, i) for i in range(len(routes))]
    apart = _laid_out(query, ref, laid)
    states = [StateId.of(StateKind.STREAM, ref.stream, (c, apart) if apart else c) for c in content]
    return [
        Input(
            id=-1,
            state=state,
            stream=ref.stream,
            filter=ref.filter,
            route=Route((key,), required=keys),
            keys=tuple(f for f in keys if not (alone and f == key)),
            fields=tuple(dict.fromkeys(ref.fields + wide)),
            alternatives=tuple(states),
        )
        for state, key in zip(states, routes, strict=True)
    ]


def _keys_of(query: Query, ref: Ref) -> dict[int, Field]:
    """The key of a reference in each class that it takes part in."""
    return {
        i: member.field
        for i, c in enumerate(query.classes)
        for member in c.members
        if member.alias == ref.alias
    }


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
        stateless=known.stateless and wanted.stateless,
        alternatives=known.alternatives,
    )


def _signed(value: int) -> int:
    return value - (1 << 64) if value >= 1 << 63 else value
