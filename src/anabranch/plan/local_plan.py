"""A plan ready to run at a site: per node its state, its join keys, its predicates, its columns."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import combinations

from anabranch.plan.aggregate import WindowNode, window_node
from anabranch.plan.bands import split_bands, split_distance
from anabranch.plan.columns import columns_above, columns_in, leaf_node, to_verify
from anabranch.plan.crossing import cross_by_probing, crossings
from anabranch.plan.inputs import (
    HASH,
    Layout,
    RoutedQuery,
)
from anabranch.plan.logical import Query
from anabranch.plan.nodes import (
    Crossing,
    JoinNode,
    LeafNode,
    LocalNode,
    Operand,
    ProbeNode,
    StationsNode,
)
from anabranch.plan.states.fragments import Fragments
from anabranch.plan.states.state_id import KEEPS_NOTHING
from anabranch.plan.stations.stations import compile_stations
from anabranch.plan.tree import Join, Leaf, Plan, Probe, joins


@dataclass(frozen=True, slots=True)
class LocalPlan:
    """The plan of one query at one site."""

    query: Query
    plan: Plan
    root: LocalNode | ProbeNode | StationsNode
    partitioned: bool
    window: WindowNode | None = None
    """What groups the rows of the root; None for joins whose rows are the results."""
    edges: tuple[JoinNode, ...] = ()
    """Pairs of references with a key in common, of queries with more than one plan."""

    @property
    def has_tracks(self) -> bool:
        """Whether sites may run other join orders; rows at stations choose their own."""
        return self.root.has_tracks

    def nodes(self) -> list[Operand]:
        """All nodes with a state, children before parents, and the root of a tree."""
        return list(self.root.nodes())

    def keeping(self) -> list[Operand | WindowNode]:
        """All nodes whose rows are kept: rows of the root are results, or what groups them keeps them."""
        window = [] if self.window is None else [self.window]
        return [*window, *(node for node in self.root.nodes() if node is not self.root)]


def compile_plan(
    layout: Layout, routed: RoutedQuery, plan: Plan, *, since: int = 0, until: int | None = None
) -> LocalPlan:
    """Make a plan ready to run.

    Parameters
    ----------
    since, until
        The batches whose first rows belong to the plan's track (`adapt.tracks`): every track has
        intermediate states of its own.
    """
    grouping = routed.query.grouping
    if routed.tree is not None:
        window = None if grouping is None else window_node(layout, routed, grouping)
        return LocalPlan(routed.query, plan, compile_stations(layout, routed), True, window)
    fragments = Fragments.of(routed, layout.inputs)
    by_probing = cross_by_probing(routed.graph, joins(plan))
    return LocalPlan(
        routed.query,
        plan,
        _compile_root(layout, routed, plan, _Track(fragments, since, until, by_probing)),
        bool(routed.routing if grouping is None or len(routed.query.refs) > 1 else grouping.keys),
        None if grouping is None else window_node(layout, routed, grouping),
        _edges(layout, routed, fragments),
    )


@dataclass(frozen=True, slots=True)
class _Track:
    """What a plan is compiled for: its batches, and how it ends."""

    fragments: Fragments
    since: int = 0
    until: int | None = None
    by_probing: bool = True
    in_chain: bool = False


def _compile_root(layout: Layout, routed: RoutedQuery, plan: Plan, track: _Track) -> LocalNode | ProbeNode:
    if not isinstance(plan, Probe):
        root = _compile(layout, routed, plan, track)
        if isinstance(root, JoinNode):  # another query may keep such rows: ours are results
            root = replace(root, state=KEEPS_NOTHING, earlier=None, fresh=None)
        return root
    orders = [tuple(map(Leaf, order)) for order in plan.orders]
    return _compile_chains(layout, routed, orders, replace(track, in_chain=True))


def _compile_chains(
    layout: Layout, routed: RoutedQuery, orders: Sequence[Sequence[Plan]], track: _Track
) -> ProbeNode:
    chains = []
    for first, *others in orders:
        tree = first
        for other in others:
            tree = Join(tree, other)
        chain = _compile(layout, routed, tree, track)
        assert isinstance(chain, JoinNode)
        chains.append(chain)
    return ProbeNode(tuple(first.aliases[0] for first, *_ in orders), tuple(chains))


def _crossings(layout: Layout, routed: RoutedQuery, plan: Join, track: _Track) -> Iterator[Crossing]:
    track = replace(track, in_chain=True)
    for side, old in crossings(plan):
        first, second = side.left, side.right
        new = (_compile(layout, routed, leaf, track) for leaf in (first, second))
        from_old = (old, first, second)
        by_old = (from_old, (first, old, second), (second, old, first))
        by_new = (from_old, (first, second, old), (second, first, old))
        yield Crossing(
            tuple(node for node in new if isinstance(node, LeafNode)),
            _compile(layout, routed, old, track),
            _compile_chains(layout, routed, by_old, track),
            _compile_chains(layout, routed, by_new, track),
        )


def _compile(layout: Layout, routed: RoutedQuery, plan: Plan, track: _Track) -> LocalNode:
    if isinstance(plan, Leaf):
        ref = next(r for r in routed.query.refs if r.alias == plan.alias)
        foreign = layout.shared.taken_from(track.fragments.ids[ref.alias])
        return leaf_node(routed, ref, layout.inputs[routed.input_of(ref.alias)], foreign=foreign)
    assert isinstance(plan, Join)
    graph, query = routed.graph, routed.query
    classes = graph.shared_classes(plan.left.aliases, plan.right.aliases)
    on_routing_hash = bool(routed.routing) and classes == routed.routing
    sides = (_compile(layout, routed, side, track) for side in (plan.left, plan.right))
    left, right = (replace(s, ordered=on_routing_hash) if isinstance(s, JoinNode) else s for s in sides)
    residuals = [query.residuals[i] for i in graph.residuals_between(left.aliases, right.aliases)]
    distance, others = split_distance(residuals, left.aliases)
    bands, beside_bands = split_bands(others, left.aliases, right.aliases)
    state = track.fragments.state(plan.aliases)
    columns = columns_above(routed, plan.aliases)
    names = track.fragments.names(columns, plan.aliases)
    if not track.in_chain:
        for carried in layout.shared.columns.get(state, ()):
            if carried.name not in names.values():  # other queries need it
                columns, names = (*columns, carried.name), names | {carried.name: carried.name}
    if len(routed.routing) == 1:
        names[f"k{routed.routing[0]}"] = HASH
    earlier = state.of_track(since=track.since)
    ends = track.until is not None and not track.in_chain
    return JoinNode(
        aliases=plan.aliases,
        left=left,
        right=right,
        classes=classes,
        on_routing_hash=on_routing_hash,
        verify=to_verify(query, classes),
        residuals=tuple(r.sql for r in residuals),
        residual_columns=columns_in(query, [r.sql for r in residuals]),
        columns=columns,
        state=state.of_track(since=track.since, until=track.until),
        names=names,
        earlier=None if track.until is None else earlier,
        crossings=tuple(_crossings(layout, routed, plan, track)) if ends and track.by_probing else (),
        fresh=state.of_track(since=track.since, until=track.until, fresh=True)
        if ends and not track.by_probing
        else None,
        bands=bands,
        beside_bands=beside_bands,
        distance=distance,
        beside_distance=tuple(r.sql for r in others),
    )


def compile_join(layout: Layout, routed: RoutedQuery, inside: Sequence[str], probed: str) -> JoinNode:
    """The join of rows of some references with another reference, as a step of its own."""
    tree: Plan = Leaf(inside[0])
    for alias in (*inside[1:], probed):
        tree = Join(tree, Leaf(alias))
    node = _compile(layout, routed, tree, _Track(Fragments.of(routed, layout.inputs), in_chain=True))
    assert isinstance(node, JoinNode)
    return node


def _edges(layout: Layout, routed: RoutedQuery, fragments: Fragments) -> tuple[JoinNode, ...]:
    aliases = routed.graph.aliases
    if len(aliases) < 3:
        return ()
    alone = _Track(fragments, in_chain=True)
    pairs = (_compile(layout, routed, Join(Leaf(a), Leaf(b)), alone) for a, b in combinations(aliases, 2))
    return tuple(pair for pair in pairs if isinstance(pair, JoinNode) and (pair.classes or pair.residuals))
