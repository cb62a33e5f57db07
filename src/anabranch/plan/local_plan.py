"""A plan ready to run at a site: per node its state, its join keys, its predicates, its columns.

Logical column names inside one query: `k<c>` is the hash of key class c, `key<c>` its full value
where 64 bits cannot hold it, `<alias>.<i>` is a field of a reference. `names` maps them to the
physical columns of the node's rows, which are named by content and so outlive a changed SELECT list.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations

from anabranch.plan.aggregate import WindowNode, window_node
from anabranch.plan.crossing import cross_by_probing, crossings
from anabranch.plan.layout import (
    DEADLINE,
    HASH,
    MAX_TIME,
    TIME,
    Layout,
    RoutedQuery,
    field_column,
    is_wide,
    key_hash_column,
)
from anabranch.plan.logical import Query, Ref, column_name
from anabranch.plan.tree import Join, Leaf, Plan, Probe, joins, state_of_aliases

_QUOTED = re.compile(r"""'(?:[^']|'')*'|"([^"]+)\"""")
"""A text constant, which may contain quotes of the other kind, or the name of a column."""


@dataclass(frozen=True, slots=True)
class LeafNode:
    """The rows of one reference, as an input keeps them."""

    aliases: tuple[str, ...]
    input: int
    state: str
    window_us: int
    names: Mapping[str, str]
    max_time: str = TIME
    deadline: str = TIME
    """Column that, with `window_us` added, is the row's deadline."""


@dataclass(frozen=True, slots=True)
class JoinNode:
    """Two inputs joined. `state` names what it keeps for its sibling above; the root keeps nothing."""

    aliases: tuple[str, ...]
    left: LocalNode
    right: LocalNode
    classes: tuple[int, ...]
    """Key classes joined on; empty for a theta join."""
    on_routing_hash: bool
    verify: tuple[str, ...]
    """Logical columns to compare because the join hash alone does not prove them equal."""
    residuals: tuple[str, ...]
    residual_columns: tuple[str, ...]
    columns: tuple[str, ...]
    """Logical columns that live on above this node."""
    state: str
    names: Mapping[str, str]
    ordered: bool = False
    """Whether its rows are probed in the order of their routing hash."""
    earlier: str | None = None
    """In a track that ends: the state with its rows from before a newer track began."""
    crossings: tuple[Crossing, ...] = ()
    """In a track that ends: how its rows are found that are new on a side which is itself a join."""
    fresh: str | None = None
    """In a track that ends: the state of its rows that are new throughout, where crossings need one."""
    window_us: int = 0
    max_time: str = MAX_TIME
    deadline: str = DEADLINE

    @property
    def states(self) -> tuple[str, ...]:
        """All that it keeps."""
        return tuple(state for state in (self.state, self.earlier, self.fresh) if state is not None)

    def index_of(self, side: LocalNode) -> tuple[str, ...]:
        """Physical columns of `side` that make up the join hash; () when it is the routing hash."""
        if self.on_routing_hash:
            return ()
        return tuple(side.names[f"k{c}"] for c in self.classes)


LocalNode = LeafNode | JoinNode


@dataclass(frozen=True, slots=True)
class ProbeNode:
    """All references joined without intermediate state: a left-deep chain from each of them."""

    aliases: tuple[str, ...]
    chains: tuple[JoinNode, ...]


@dataclass(frozen=True, slots=True)
class Crossing:
    """Two references on one side of a join, with new rows, and the other side, with old ones.

    Attributes
    ----------
    by_old, by_new
        Chains from the old side and from each of the references. Those of the references come to the old
        side first, or last.
    """

    new: tuple[LeafNode, ...]
    old: LocalNode
    by_old: ProbeNode
    by_new: ProbeNode


@dataclass(frozen=True, slots=True)
class LocalPlan:
    """The plan of one query at one site."""

    query: Query
    plan: Plan
    root: LocalNode | ProbeNode
    partitioned: bool
    window: WindowNode | None = None
    """What groups the rows of the root; None for joins whose rows are the results."""
    edges: tuple[JoinNode, ...] = ()
    """Pairs of references with a key in common, of queries with more than one plan."""

    def nodes(self) -> list[LocalNode]:
        """All nodes with a state, children before parents, and the root of a tree."""
        if isinstance(self.root, ProbeNode):
            return [node for node in _walk(self.root.chains[0]) if isinstance(node, LeafNode)]
        return list(_walk(self.root))


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
    by_probing = cross_by_probing(routed.graph, joins(plan))
    return LocalPlan(
        routed.query,
        plan,
        _compile_root(layout, routed, plan, _Track(since, until, by_probing)),
        bool(routed.routing if grouping is None or len(routed.query.refs) > 1 else grouping.keys),
        None if grouping is None else window_node(layout, routed, grouping),
        _edges(layout, routed),
    )


@dataclass(frozen=True, slots=True)
class _Track:
    """What a plan is compiled for: its batches, and how it ends."""

    since: int = 0
    until: int | None = None
    by_probing: bool = True
    in_chain: bool = False


def _walk(node: LocalNode) -> Iterable[LocalNode]:
    if isinstance(node, JoinNode):
        yield from _walk(node.left)
        yield from _walk(node.right)
    yield node


def _compile_root(layout: Layout, routed: RoutedQuery, plan: Plan, track: _Track) -> LocalNode | ProbeNode:
    if not isinstance(plan, Probe):
        return _compile(layout, routed, plan, track)
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
        return _leaf(layout, routed, ref)
    assert isinstance(plan, Join)
    graph, query = routed.graph, routed.query
    classes = graph.shared_classes(plan.left.aliases, plan.right.aliases)
    on_routing_hash = bool(routed.routing) and classes == routed.routing
    sides = (_compile(layout, routed, side, track) for side in (plan.left, plan.right))
    left, right = (replace(s, ordered=on_routing_hash) if isinstance(s, JoinNode) else s for s in sides)
    residuals = [query.residuals[i] for i in graph.residuals_between(left.aliases, right.aliases)]
    columns = _columns_above(routed, plan.aliases)
    fields = {
        column_name(r.alias, i): f"{r.alias}:{field_column(f)}"
        for r in query.refs
        for i, f in enumerate(r.fields)
    }
    names = {name: fields.get(name, name) for name in columns}
    if len(routed.routing) == 1:
        names[f"k{routed.routing[0]}"] = HASH
    began = f"@{track.since}" if track.since else ""
    state = f"{query.name}-{state_of_aliases(plan.aliases)}-{routed.since}{began}"
    ends = track.until is not None and not track.in_chain
    return JoinNode(
        aliases=plan.aliases,
        left=left,
        right=right,
        classes=classes,
        on_routing_hash=on_routing_hash,
        verify=_to_verify(query, classes),
        residuals=tuple(r.sql for r in residuals),
        residual_columns=_columns_in(query, [r.sql for r in residuals]),
        columns=columns,
        state=state if track.until is None else f"{state}~{track.until}",
        names=names,
        earlier=None if track.until is None else state,
        crossings=tuple(_crossings(layout, routed, plan, track)) if ends and track.by_probing else (),
        fresh=f"{state}~{track.until}new" if ends and not track.by_probing else None,
    )


def _edges(layout: Layout, routed: RoutedQuery) -> tuple[JoinNode, ...]:
    aliases = routed.graph.aliases
    if len(aliases) < 3:
        return ()
    pairs = (_compile(layout, routed, Join(Leaf(a), Leaf(b)), _Track()) for a, b in combinations(aliases, 2))
    return tuple(pair for pair in pairs if isinstance(pair, JoinNode) and pair.classes)


def _leaf(layout: Layout, routed: RoutedQuery, ref: Ref) -> LeafNode:
    source = layout.inputs[routed.input_of(ref.alias)]
    names = {column_name(ref.alias, i): field_column(field) for i, field in enumerate(ref.fields)}
    for c, key_class in enumerate(routed.query.classes):
        for member in key_class.members:
            if member.alias == ref.alias:
                single_route = source.route.keys == (member.field,)
                names[f"k{c}"] = HASH if single_route else key_hash_column(member.field)
                if is_wide(key_class.type):
                    names[f"key{c}"] = field_column(member.field)
    return LeafNode((ref.alias,), source.id, source.state, ref.window_us, names)


def _to_verify(query: Query, classes: tuple[int, ...]) -> tuple[str, ...]:
    """A lone 64-bit key is proved by its hash, which is a bijection; wide or combined keys are not."""
    return tuple(
        f"key{c}" if is_wide(query.classes[c].type) else f"k{c}"
        for c in classes
        if is_wide(query.classes[c].type) or len(classes) > 1
    )


def _columns_above(routed: RoutedQuery, inside: tuple[str, ...]) -> tuple[str, ...]:
    """Logical columns of the references `inside` that something above their join still needs."""
    query, here = routed.query, frozenset(inside)
    columns = []
    for c, members in enumerate(routed.graph.class_aliases):
        if members & here and members - here:
            if routed.routing != (c,):
                columns.append(f"k{c}")
            if is_wide(query.classes[c].type):
                columns.append(f"key{c}")
    open_residuals = [
        r.sql for r, a in zip(query.residuals, routed.graph.residual_aliases, strict=True) if a - here
    ]
    wanted = query.outputs if query.grouping is None else query.grouping.values
    used = _columns_in(query, open_residuals + [o.sql for o in wanted])
    return tuple(columns) + tuple(name for name in used if name.rsplit(".", 1)[0] in here)


def _columns_in(query: Query, expressions: list[str]) -> tuple[str, ...]:
    known = {column_name(r.alias, i) for r in query.refs for i in range(len(r.fields))}
    found = dict.fromkeys(name for sql in expressions for name in _QUOTED.findall(sql))
    return tuple(name for name in found if name in known)
