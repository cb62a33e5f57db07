"""Stations of a query, ready to run: which rows arrive at each, whom they meet there, what leaves.

A row is stored at the one station where it arrives, and meets there what has arrived on the other side. A
joined row goes on to one of the edges that lead out of its references. So every combination is met once,
whatever way its rows take, and ways may change from row to row.
"""

from __future__ import annotations

from collections.abc import Iterable

from anabranch.plan.columns import columns_above, columns_in, leaf_node, to_verify
from anabranch.plan.inputs import HASH, Layout, RoutedQuery
from anabranch.plan.nodes import JoinNode, LeafNode, Station, StationRows, StationsNode, StoredNode
from anabranch.plan.states.fragments import Fragments
from anabranch.plan.states.state_id import KEEPS_NOTHING, StateId
from anabranch.plan.stations.join_tree import Edge


def compile_stations(layout: Layout, routed: RoutedQuery) -> StationsNode:
    """Make the stations of a query ready to run."""
    tree = routed.tree
    assert tree is not None
    fragments = Fragments.of(routed, layout.inputs)
    stations = tuple(_station(layout, routed, fragments, edge) for edge in tree.edges)
    kept = {(s.edge, node.aliases): node for s in stations for node in (*s.left, *s.right)}
    onward: dict[tuple[str, ...], tuple[StationRows, ...]] = {}
    leaves: dict[str, tuple[LeafNode, ...]] = {}
    for aliases in dict.fromkeys(aliases for _, aliases in kept):
        options = [kept[edge, aliases] for edge in tree.onward(aliases)]
        if len(aliases) > 1:
            onward[aliases] = tuple(node for node in options if isinstance(node, StationRows))
        else:
            leaves[aliases[0]] = tuple(node for node in options if isinstance(node, LeafNode))
    return StationsNode(tree.aliases, stations, onward, leaves, tree.hops)


def _station(layout: Layout, routed: RoutedQuery, fragments: Fragments, edge: Edge) -> Station:
    assert routed.tree is not None
    left, right = (
        tuple(_rows(layout, routed, fragments, edge, aliases) for aliases in routed.tree.rows_at(edge, end))
        for end in (edge.left, edge.right)
    )
    joins = tuple(_join(layout, routed, fragments, edge, a, b) for a in left for b in right)
    return Station(edge, left, right, joins)


def _rows(
    layout: Layout, routed: RoutedQuery, fragments: Fragments, edge: Edge, aliases: tuple[str, ...]
) -> StoredNode:
    if len(aliases) == 1:
        ref = next(r for r in routed.query.refs if r.alias == aliases[0])
        source = layout.inputs[routed.input_at(aliases[0], edge.number)]
        return leaf_node(routed, ref, source, foreign=layout.shared.taken_from(fragments.ids[ref.alias]))
    state = fragments.station_state(routed, edge, aliases)
    columns, names = _columns(layout, routed, fragments, aliases, [state])
    return StationRows(
        aliases=aliases,
        edge=edge.number,
        key=edge.key,
        state=state,
        columns=columns,
        names=names | {edge.key: HASH},
        is_shared=state in layout.shared.stations,
    )


def _columns(
    layout: Layout,
    routed: RoutedQuery,
    fragments: Fragments,
    aliases: tuple[str, ...],
    states: Iterable[StateId],
) -> tuple[tuple[str, ...], dict[str, str]]:
    """Logical columns of joined rows, and their names: what the query needs, and others with these states."""
    columns = columns_above(routed, aliases)
    names = fragments.names(columns, aliases)
    for carried in (c for state in states for c in layout.shared.stations.get(state, ())):
        if carried.name not in names.values():
            columns, names = (*columns, carried.name), names | {carried.name: carried.name}
    return columns, names


def travelling_states(layout: Layout) -> dict[StateId, frozenset[str]]:
    """States of joined rows at stations, each with the streams that its rows are of."""
    found = {}
    for routed in layout.queries:
        if (tree := routed.tree) is None:
            continue
        fragments = Fragments.of(routed, layout.inputs)
        streams = {ref.alias: ref.stream for ref in routed.query.refs}
        for edge, aliases in tree.arrivals():
            if len(aliases) > 1:
                state = fragments.station_state(routed, edge, aliases)
                found[state] = frozenset(streams[alias] for alias in aliases)
    return found


def _join(
    layout: Layout,
    routed: RoutedQuery,
    fragments: Fragments,
    edge: Edge,
    left: StoredNode,
    right: StoredNode,
) -> JoinNode:
    assert routed.tree is not None
    graph, query = routed.graph, routed.query
    order = {alias: i for i, alias in enumerate(graph.aliases)}
    aliases = tuple(sorted(left.aliases + right.aliases, key=order.__getitem__))
    classes = graph.shared_classes(left.aliases, right.aliases)
    residuals = [query.residuals[i].sql for i in graph.residuals_between(left.aliases, right.aliases)]
    onward = [fragments.station_state(routed, e, aliases) for e in routed.tree.onward(aliases)]
    columns, names = _columns(layout, routed, fragments, aliases, onward)
    return JoinNode(
        aliases=aliases,
        left=left,
        right=right,
        classes=classes,
        on_routing_hash=classes == (edge.key_class,),
        verify=to_verify(query, classes),
        residuals=tuple(residuals),
        residual_columns=columns_in(query, residuals),
        columns=columns,
        state=KEEPS_NOTHING,  # where its rows are kept is decided when they leave
        names=names,
    )
