"""Compiled plans: keys, what is verified, columns, states."""

from __future__ import annotations

import pytest

from anabranch.plan.inputs import HASH
from anabranch.plan.nodes import JoinNode, StationsNode
from tests.plan.queries import plan_of, query


def join(plan: object) -> JoinNode:
    assert isinstance(plan, JoinNode)
    return plan


def test_a_lone_long_key_is_proved_by_its_hash() -> None:
    root = join(plan_of(query("a.k = b.k", number=2)).root)
    assert (root.on_routing_hash, root.verify, root.index_of(root.left)) == (True, (), ())


@pytest.mark.parametrize(
    ("where", "verify"),
    [
        ("a.s = b.s", ("key0",)),
        ("a.k = b.k AND a.j = b.j", ("k0", "k1")),
        ("a.s = b.s AND a.k = b.k", ("key0", "k1")),
    ],
    ids=["text", "two longs", "text and long"],
)
def test_a_hash_that_proves_nothing_is_verified(where: str, verify: tuple[str, ...]) -> None:
    assert join(plan_of(query(where, number=2)).root).verify == verify


def test_a_chain_probes_by_the_hash_of_each_key() -> None:
    plan = plan_of(query("a.k = b.k AND b.j = c.j"))
    assert isinstance(plan.root, StationsNode)
    first, _ = plan.root.stations
    assert [j.aliases for j in first.joins] == [("a", "b"), ("a", "b", "c")]
    assert all(j.on_routing_hash for s in plan.root.stations for j in s.joins)
    (joined,) = plan.root.onward["a", "b"]
    assert (joined.edge, joined.key, joined.names["k1"]) == (1, "k1", HASH)
    assert [leaf.names["k1"] for leaf in plan.root.alternatives["b"]] == ["hash(`j`::bigint)", HASH]


def test_a_cycle_takes_a_spanning_tree_and_tests_the_other_equality_where_its_sides_meet() -> None:
    plan = plan_of(query("a.k = b.k AND b.j = c.j AND c.v = a.v"))
    assert isinstance(plan.root, StationsNode)
    whole = [j for s in plan.root.stations for j in s.joins if len(j.aliases) == 3]
    assert len(plan.root.stations) == 2
    assert all(len(j.classes) == 2 for j in whole)


def test_a_plan_on_the_routing_hash_needs_no_other_order() -> None:
    root = join(plan_of(query("a.k = b.k AND b.k = c.k")).root)
    assert root.index_of(root.left) == root.index_of(root.right) == ()


def test_an_intermediate_row_keeps_only_what_is_needed_above() -> None:
    inner = join(join(plan_of(query("a.k = b.k AND b.k = c.k AND a.v < c.v", select="b.j")).root).left)
    assert inner.columns == ("a.0", "b.0")
    assert inner.names["k0"] == HASH


def test_a_residual_is_applied_where_its_last_reference_joins() -> None:
    root = join(plan_of(query("a.k = b.k AND b.k = c.k AND a.v < c.v AND a.v < b.v")).root)
    assert len(root.residuals) == 1
    assert len(join(root.left).residuals) == 1


def test_the_state_of_a_node_is_named_by_the_references_below_it() -> None:
    asked = query("a.k = b.k AND b.k = c.k")
    states = {
        text: {s for n in plan_of(asked, text).nodes() if isinstance(n, JoinNode) for s in n.states}
        for text in ("((a b) c)", "((b a) c)", "(a (b c))")
    }
    assert states["((a b) c)"] == states["((b a) c)"]
    assert not states["((a b) c)"] & states["(a (b c))"]
    assert all(len(kept) == 1 for kept in states.values()), "the root keeps nothing"


@pytest.mark.parametrize("constant", ['"', '"c.0"', "it\\'s \"", '"a.0" '])
def test_a_text_constant_with_quotes_does_not_hide_or_invent_columns(constant: str) -> None:
    asked = query("a.k = b.k", select=f"concat(a.s, '{constant}', b.s) AS t", number=2)
    assert join(plan_of(asked).root).columns == ("a.0", "b.0")
