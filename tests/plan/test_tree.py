"""Plans: text and back, and the plan to start with."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from anabranch.plan.graph import JoinGraph
from anabranch.plan.tree import Join, Leaf, Plan, default_plan, joins, parse_plan

PLANS: st.SearchStrategy[Plan] = st.recursive(
    st.sampled_from("abcdefgh").map(Leaf), lambda inner: st.builds(Join, inner, inner), max_leaves=8
)


@given(PLANS)
def test_a_plan_is_read_back_from_its_text(plan: Plan) -> None:
    assert parse_plan(str(plan)) == plan


@pytest.mark.parametrize("text", ["", "(a", "(a b", "(a b))", "a b", ")", "(a b c)", "()", "(a)"])
def test_text_that_is_no_plan_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is not a plan"):
        parse_plan(text)


def test_joins_are_listed_children_before_parents() -> None:
    assert [str(j) for j in joins(parse_plan("((a b) (c d))"))] == ["(a b)", "(c d)", "((a b) (c d))"]


def graph(aliases: str, classes: list[str], residuals: list[str]) -> JoinGraph:
    return JoinGraph(tuple(aliases), tuple(map(frozenset, classes)), tuple(map(frozenset, residuals)))


@pytest.mark.parametrize(
    ("classes", "residuals", "plan"),
    [
        (["abcd"], [], "(((a b) c) d)"),
        (["ac", "cb", "bd"], [], "(((a c) b) d)"),
        (["ad"], ["ab"], "(((a d) b) c)"),
        ([], ["ac"], "(((a c) b) d)"),
        (["ab", "cd"], [], "(((a b) c) d)"),
        ([], [], "(((a b) c) d)"),
    ],
    ids=["one key", "chain", "key before predicate", "predicate before product", "islands", "product"],
)
def test_the_default_plan_postpones_cross_products(
    classes: list[str], residuals: list[str], plan: str
) -> None:
    assert str(default_plan(graph("abcd", classes, residuals))) == plan


@given(
    st.lists(st.sets(st.sampled_from("abcde"), min_size=2).map("".join), max_size=4),
    st.lists(st.sets(st.sampled_from("abcde"), min_size=2).map("".join), max_size=2),
)
def test_a_connected_query_has_no_cross_product_in_its_default_plan(
    classes: list[str], residuals: list[str]
) -> None:
    asked = graph("abcde", classes, [])
    reached = {"a"}
    for _ in "abcde":
        reached |= {a for c in classes if reached & set(c) for a in c}
    if reached == set("abcde"):
        for join in joins(default_plan(graph("abcde", classes, residuals))):
            assert asked.shared_classes(join.left.aliases, join.right.aliases)
