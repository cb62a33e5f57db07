"""Candidates: every tree once, no cross product that is not needed."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from anabranch.plan.graph import JoinGraph
from anabranch.plan.search.candidates import canonical
from anabranch.plan.tree import Join, Leaf, Plan, default_plan, joins, parse_plan
from tests.plan.every_plan import every_plan
from tests.plan.statistics import graph


@pytest.mark.parametrize(
    ("aliases", "count"), [("a", 1), ("ab", 1), ("abc", 3), ("abcd", 15), ("abcde", 105)]
)
def test_one_key_allows_every_tree(aliases: str, count: int) -> None:
    plans = [str(plan) for plan in every_plan(graph(aliases, [aliases]))]
    assert len(plans) == len(set(plans)) == count


PLANS = {
    "chain": (graph("abc", ["ab", "bc"]), ["((a b) c)", "(a (b c))"]),
    "star": (graph("abc", ["ab", "ac"]), ["((a b) c)", "((a c) b)"]),
    "a predicate is an edge": (graph("abc", ["ab"], ["bc"]), ["((a b) c)", "(a (b c))"]),
    "a predicate over three is one where the last joins": (graph("abc", ["bc"], ["abc"]), ["(a (b c))"]),
    "nothing but products": (graph("abc", []), ["((a b) c)", "((a c) b)", "(a (b c))"]),
}


@pytest.mark.parametrize(("asked", "plans"), PLANS.values(), ids=PLANS.keys())
def test_cross_products_only_where_the_graph_needs_them(asked: JoinGraph, plans: list[str]) -> None:
    assert sorted(map(str, every_plan(asked))) == sorted(plans)


def test_islands_are_joined_by_one_product_anywhere() -> None:
    plans = set(map(str, every_plan(graph("abcd", ["ab", "cd"]))))
    assert {"((a b) (c d))", "(((a b) c) d)", "(((a c) b) d)"} <= plans
    assert not plans & {"((a c) (b d))", "((a d) (b c))"}  # two products
    assert len(plans) == 13


def test_left_deep_and_bushy_trees_are_there() -> None:
    plans = set(map(str, every_plan(graph("abcd", ["abcd"]))))
    assert {"(((a b) c) d)", "((a b) (c d))", "(a ((b c) d))"} <= plans


GRAPHS = st.builds(
    graph,
    st.just("abcde"),
    st.lists(st.sets(st.sampled_from("abcde"), min_size=2).map("".join), max_size=4),
    st.lists(st.sets(st.sampled_from("abcde"), min_size=2).map("".join), max_size=2),
)


@given(GRAPHS)
def test_all_candidates_have_the_same_number_of_products_and_the_default_plan_has_no_fewer(
    asked: JoinGraph,
) -> None:
    def products(plan: Plan) -> int:
        return sum(not asked.connected(j.left.aliases, j.right.aliases) for j in joins(plan))

    counts = {products(plan) for plan in every_plan(asked)}
    assert len(counts) == 1
    assert counts.pop() <= products(default_plan(asked))


def mirrored(plan: Plan, draw: st.DataObject) -> Plan:
    if isinstance(plan, Leaf):
        return plan
    sides = mirrored(plan.left, draw), mirrored(plan.right, draw)
    return Join(*(sides if draw.draw(st.booleans()) else sides[::-1]))


@given(st.data())
def test_mirror_images_are_one_plan(data: st.DataObject) -> None:
    asked = graph("abcd", ["abcd"])
    plan = data.draw(st.sampled_from(list(every_plan(asked))))
    assert canonical(mirrored(plan, data), asked) == plan


def test_the_default_plan_is_written_as_candidates_are() -> None:
    asked = graph("abcd", ["ac", "cb", "bd"])
    assert default_plan(asked) == canonical(default_plan(asked), asked) == parse_plan("(((a c) b) d)")
