"""When a join with cycles gets another spanning tree: clearly cheaper, for some looks in a row."""

from __future__ import annotations

import json

import numpy as np
import pytest

from anabranch.adapt.eddy.tree_choice import LOOKS, CyclicJoin, KeyOf, TreeVotes
from anabranch.adapt.measures.key_sketch import KeySketch
from anabranch.plan.cost.estimates import Estimates, JoinStatistics
from anabranch.plan.cost.plan_cost import UnitCosts, plan_cost
from anabranch.plan.graph import JoinGraph
from anabranch.plan.search.optimizer import ranked
from anabranch.plan.stations.join_tree import JoinTree
from anabranch.plan.stations.readdressing import follows
from anabranch.plan.stations.spanning_trees import best_order, cheapest_tree, ends_of, spanning_trees

GRAPH = JoinGraph(tuple("abc"), (frozenset("ab"), frozenset("bc"), frozenset("ac")), ())
"""A triangle: key classes 0, 1 and 2."""
AB_AC, _, AC_BC = spanning_trees(GRAPH)
WINDOWS = dict.fromkeys("abc", 2.0)


def sketches(values: tuple[int, int, int], *, seed: int, rows: int = 2_000) -> dict[KeyOf, KeySketch]:
    """Keys of each class with so many values."""
    draw = np.random.default_rng(seed)
    hashed = np.random.default_rng(99).integers(-(2**62), 2**62, (3, max(values)))
    return {
        ("q", alias, number): KeySketch.of(hashed[number][draw.integers(0, values[number], rows)])
        for number, members in enumerate(GRAPH.class_aliases)
        for alias in sorted(members)
    }


def after(
    votes: TreeVotes,
    values: tuple[int, int, int],
    *,
    tree: JoinTree = AB_AC,
    at_stations: bool = True,
    seed: int,
) -> TreeVotes:
    join = CyclicJoin("q", GRAPH, WINDOWS, tree, at_stations)
    seen = sketches(values, seed=seed)
    votes, _ = votes.after([join], seen, UnitCosts(), elapsed_s=1.0, hop_s=0.0, sites=1)
    return votes


def test_another_tree_is_taken_when_it_was_clearly_cheaper_for_some_looks() -> None:
    votes = TreeVotes()
    for look in range(LOOKS):
        assert not votes.turning
        votes = after(votes, (10, 1_000, 50), seed=look)
    assert votes.turning == {"q": ends_of(AC_BC)}
    told = json.loads(json.dumps(votes.to_json()))
    assert TreeVotes.from_json(told).turning == votes.turning
    votes = after(votes, (10, 1_000, 50), at_stations=False, seed=9)
    assert votes.turning, "it is on its way"
    votes = after(votes, (10, 1_000, 50), tree=AC_BC, seed=10)
    assert not votes.turning


@pytest.mark.parametrize("values", [(1_000, 10, 10), (300, 300, 300)], ids=["it is the best", "all alike"])
def test_a_tree_that_is_as_good_stays(values: tuple[int, int, int]) -> None:
    votes = TreeVotes()
    for look in range(3 * LOOKS):
        votes = after(votes, values, seed=look)
    assert not votes.turning


def test_one_look_that_says_otherwise_starts_the_count_again() -> None:
    votes = after(after(TreeVotes(), (10, 1_000, 50), seed=1), (10, 1_000, 50), seed=2)
    assert votes.votes == {"q": LOOKS - 1}
    votes = after(TreeVotes(votes=votes.votes), (1_000, 10, 10), seed=3)
    assert votes.votes == {"q": 0}


def test_on_one_site_the_best_edges_are_remembered_for_stations() -> None:
    votes = after(TreeVotes(), (10, 1_000, 50), at_stations=False, seed=1)
    assert votes.wanted == {"q": ends_of(AC_BC)}
    assert not votes.turning


def test_the_best_order_along_a_tree_is_the_cheapest_plan_that_follows_it() -> None:
    draw = np.random.default_rng(3)
    classes = [frozenset(pair) for pair in ("ab", "bc", "cd", "ad", "ac")]
    graph = JoinGraph(tuple("abcd"), tuple(classes), ())
    for _ in range(20):
        known = JoinStatistics(
            {alias: float(draw.integers(1, 100)) for alias in "abcd"},
            {alias: float(draw.integers(1, 5)) for alias in "abcd"},
            {pair: float(10 ** draw.uniform(-4, -0.5)) for pair in classes},
        )
        estimates, costs = Estimates(graph, known), UnitCosts()
        for tree in spanning_trees(graph):
            plans = [r.plan for r in ranked(estimates, costs, limit=1_000) if follows(tree, r.plan)]
            least = min(plan_cost(plan, estimates, costs).seconds for plan in plans)
            assert best_order(tree, estimates, costs)[1] == pytest.approx(least)
        found = cheapest_tree(graph, estimates, costs, hop_s=0.0, sites=1)
        assert found is not None
        assert found[1] == min(best_order(t, estimates, costs)[1] for t in spanning_trees(graph))
