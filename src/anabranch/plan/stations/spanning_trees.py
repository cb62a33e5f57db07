"""Spanning trees of a join graph with cycles: which there are, and what the best order along one costs.

A tree decides which references may meet first. Equalities outside it are tested where their two sides meet,
so that any tree is right, and the best is one along which few intermediate rows are made.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import combinations
from math import comb

from anabranch.plan.cost.estimates import Estimates
from anabranch.plan.cost.plan_cost import UnitCosts, join_work
from anabranch.plan.graph import JoinGraph
from anabranch.plan.search.candidates import References
from anabranch.plan.stations.join_tree import EdgeEnds, JoinTree, candidate_edges
from anabranch.plan.tree import Join, Leaf, Plan

MOST_TREES = 500
"""Sets of edges to look at; of a graph with more, only the tree of the cheapest edges."""


def spanning_trees(graph: JoinGraph) -> Iterator[JoinTree]:
    """All spanning trees, one for every set of pairs; none where there are too many to look at.

    >>> triangle = JoinGraph(tuple("abc"), (frozenset("ab"), frozenset("bc"), frozenset("ac")), ())
    >>> [[str(edge) for edge in tree.edges] for tree in spanning_trees(triangle)]
    [['a–b', 'a–c'], ['a–b', 'b–c'], ['a–c', 'b–c']]
    """
    # Two references with two keys in common meet on both, whichever has the address: the first will do.
    pairs = {frozenset(edge[:2]): edge for edge in reversed(candidate_edges(graph))}
    edges, size = list(reversed(pairs.values())), len(graph.aliases) - 1
    if comb(len(edges), size) > MOST_TREES:
        return
    for some in combinations(edges, size):
        if (tree := JoinTree.along(graph, some)) is not None:
            yield tree


def cheapest_tree(
    graph: JoinGraph, estimates: Estimates, costs: UnitCosts, *, hop_s: float, sites: int
) -> tuple[JoinTree, float] | None:
    """The best spanning tree, and what it costs; of several, the one whose edges make fewest rows."""
    trees: Sequence[JoinTree] = tuple(spanning_trees(graph))
    if not trees:
        by_rate = sorted(candidate_edges(graph), key=lambda edge: estimates.rate(frozenset(edge[:2])))
        found = JoinTree.along(graph, by_rate)
        trees = () if found is None else (found,)
    rated = [
        (tree_cost(tree, estimates, costs, hop_s=hop_s, sites=sites), _rows_made(tree, estimates), i)
        for i, tree in enumerate(trees)
    ]
    if not rated:
        return None
    cost, _, best = min(rated)
    return trees[best], cost


def tree_cost(tree: JoinTree, estimates: Estimates, costs: UnitCosts, *, hop_s: float, sites: int) -> float:
    """CPU seconds of a site per second of event time in the best order along a tree, and hops.

    Parameters
    ----------
    hop_s
        What one more hop takes, per second of event time.
    """
    return best_order(tree, estimates, costs)[1] / sites + (tree.hops - 1) * hop_s


def best_order(tree: JoinTree, estimates: Estimates, costs: UnitCosts) -> tuple[Plan, float]:
    """The cheapest plan whose joins are along edges of a tree, and its CPU seconds."""
    known: dict[References, tuple[Plan, float]] = {frozenset((a,)): (Leaf(a), 0.0) for a in tree.aliases}

    def best(inside: References) -> tuple[Plan, float]:
        if inside in known:
            return known[inside]
        found: list[tuple[float, str, Plan]] = []
        for left, right in _cuts(tree, inside):
            (one, one_s), (other, other_s) = best(left), best(right)
            work = join_work(left, right, estimates, kept=len(inside) < len(tree.aliases))
            joined = Join(one, other)
            found.append((one_s + other_s + work.seconds(costs), str(joined), joined))
        cost, _, plan = min(found, key=lambda option: option[:2])
        known[inside] = plan, cost
        return plan, cost

    return best(frozenset(tree.aliases))


def _cuts(tree: JoinTree, inside: References) -> Iterator[tuple[References, References]]:
    """The two parts into which each edge inside a part of a tree divides it."""
    edges = [edge for edge in tree.edges if edge.left in inside and edge.right in inside]
    for cut in edges:
        left, grown = {cut.left}, True
        while grown:
            size = len(left)
            left |= {e.right for e in edges if e is not cut and e.left in left}
            left |= {e.left for e in edges if e is not cut and e.right in left}
            grown = len(left) > size
        yield frozenset(left), inside - left


def _rows_made(tree: JoinTree, estimates: Estimates) -> float:
    return sum(estimates.rate(frozenset((edge.left, edge.right))) for edge in tree.edges)


def ends_of(tree: JoinTree) -> tuple[EdgeEnds, ...]:
    """The edges of a tree by what they join."""
    return tuple((edge.left, edge.right, edge.key_class) for edge in tree.edges)
