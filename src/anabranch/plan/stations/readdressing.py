"""From a join tree to stations and back: which rows of the one layout are rows of the other, and where.

A tree whose joins follow the edges of the stations' tree *is* a fixed order of the stations. A node of it is
kept to meet its sibling, so that its rows belong to the station of the edge between the two::

    ((a b) c)      a, b  ─► station a–b          rows of the streams, and of all joins below the root,
                   a b, c ─► station b–c          under other addresses: nothing is computed

Stations keep every row of a stream once, at one of its edges. These are the leaves of a tree; its
intermediate states are computed as for any plan that lacks them (CAPE, section 4.1: moving state).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from anabranch.plan.inputs import DEADLINE, HASH, MAX_TIME, TIME, Layout
from anabranch.plan.local_plan import LocalPlan
from anabranch.plan.nodes import JoinNode, LeafNode, Operand, StationsNode, StoredNode
from anabranch.plan.states.state_id import StateId
from anabranch.plan.stations.join_tree import Edge, JoinTree
from anabranch.plan.tree import Join, Leaf, Plan, joins


@dataclass(frozen=True, slots=True)
class Readdressing:
    """Rows of one state that become rows of another.

    Attributes
    ----------
    address
        Column with their new addresses; None where all get the same, which is `pin`.
    columns
        Columns to be taken over, with their names before and after.
    required
        Columns in which a row must have a value.
    """

    source: StateId
    target: StateId
    address: str | None
    pin: int
    columns: tuple[tuple[str, str], ...]
    required: tuple[str, ...]
    time: str
    """Column by which rows of one address are ordered."""

    def to_json(self) -> list[Any]:
        columns = [list(pair) for pair in self.columns]
        return [self.source, self.target, self.address, self.pin, columns, list(self.required), self.time]

    @classmethod
    def from_json(cls, data: Sequence[Any]) -> Readdressing:
        source, target, address, pin, columns, required, time = data
        pairs = tuple((str(before), str(after)) for before, after in columns)
        return cls(StateId(source), StateId(target), address, pin, pairs, tuple(required), time)


def follows(tree: JoinTree, plan: Plan) -> bool:
    """Whether every join of a plan is along one edge of the stations' tree.

    >>> from anabranch.plan.tree import parse_plan
    >>> chain = JoinTree(("a", "b", "c"), (Edge(0, 0, "a", "b"), Edge(1, 1, "b", "c")))
    >>> follows(chain, parse_plan("(a (b c))")), follows(chain, parse_plan("((a c) b)"))
    (True, False)
    """
    return isinstance(plan, Join) and all(len(_between(tree, j.left, j.right)) == 1 for j in joins(plan))


def plan_along(tree: JoinTree) -> Plan:
    """A left-deep plan along the edges of a tree."""
    plan: Plan = Leaf(tree.aliases[0])
    while len(plan.aliases) < len(tree.aliases):
        edge = next(e for e in tree.edges if (e.left in plan.aliases) != (e.right in plan.aliases))
        plan = Join(plan, Leaf(edge.right if edge.left in plan.aliases else edge.left))
    return plan


def to_stations(before: LocalPlan, after: LocalPlan, layout: Layout) -> list[Readdressing]:
    """What becomes of the states of a plan that `follows` the tree of the stations."""
    assert isinstance(before.root, JoinNode)
    assert isinstance(after.root, StationsNode)
    tree = JoinTree(after.root.aliases, tuple(station.edge for station in after.root.stations))
    kept = {(s.edge.number, n.aliases): n for s in after.root.stations for n in (*s.left, *s.right)}
    found, waiting = [], [before.root]
    while waiting:
        join = waiting.pop()
        (edge,) = _between(tree, join.left, join.right)
        for side in join.sides:
            aliases = tuple(a for a in tree.aliases if a in side.aliases)
            found.append(_readdressing(side, kept[edge.number, aliases], layout))
            if isinstance(side, JoinNode):
                waiting.append(side)
    return found


def to_tree(before: LocalPlan, after: LocalPlan, layout: Layout) -> list[Readdressing]:
    """What becomes of the rows of streams that stations keep."""
    assert isinstance(before.root, StationsNode)
    leaves = {node.aliases[0]: node for node in after.nodes() if isinstance(node, LeafNode)}
    return [
        _readdressing(node, leaves[alias], layout)
        for alias, nodes in before.root.alternatives.items()
        for node in nodes
    ]


def _between(tree: JoinTree, left: Plan | Operand, right: Plan | Operand) -> list[Edge]:
    return [
        edge
        for edge in tree.edges
        if (edge.left in left.aliases and edge.right in right.aliases)
        or (edge.left in right.aliases and edge.right in left.aliases)
    ]


def _readdressing(before: Operand, after: StoredNode, layout: Layout) -> Readdressing:
    addressed = [before.names[name] for name, column in after.names.items() if column == HASH]
    pin = layout.inputs[after.input].route.pin if isinstance(after, LeafNode) and not addressed else 0
    assert pin is not None
    times = (TIME,) if isinstance(after, LeafNode) else (MAX_TIME, DEADLINE)
    kept = {before.names[name]: column for name, column in after.names.items() if column != HASH}
    is_key = {name: name.startswith("k") and name[1:].isdigit() for name in after.names}
    required = dict.fromkeys(before.names[name] for name in after.names if is_key[name])
    return Readdressing(
        before.state,
        after.state,
        addressed[0] if addressed else None,
        pin,
        (*((time, time) for time in times), *kept.items()),
        tuple(required),
        times[0],
    )
