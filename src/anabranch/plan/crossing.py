"""How a track that ends gets from new rows of one side of a join to old rows of the other.

Either it keeps the new rows of that side as a state, as the papers' old plan does, or it finds the crossing
by probing, by way of whichever are fewer. Probing pays where it need not make again what a state would
have: for sides of two references, each with a key in common with the other side.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from anabranch.plan.graph import JoinGraph
from anabranch.plan.tree import Join, Leaf, Plan


def crossings(join: Join) -> Iterator[tuple[Join, Plan]]:
    """Sides of a join that are joins themselves, each with the other side."""
    for side, other in ((join.left, join.right), (join.right, join.left)):
        if isinstance(side, Join):
            yield side, other


def cross_by_probing(graph: JoinGraph, joins: Iterable[Join]) -> bool:
    """Whether all crossings of a plan with these joins are found by probing.

    >>> from anabranch.plan.tree import joins, parse_plan
    >>> everything = frozenset("abcd")
    >>> graph = JoinGraph(tuple("abcd"), (everything,), ())
    >>> [cross_by_probing(graph, joins(parse_plan(plan))) for plan in ("((a b) c)", "(((a b) c) d)")]
    [True, False]
    """
    return all(
        isinstance(leaf, Leaf) and graph.shared_classes(leaf.aliases, other.aliases)
        for join in joins
        for side, other in crossings(join)
        for leaf in (side.left, side.right)
    )
