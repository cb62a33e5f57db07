"""Bits of the distributed join graph: no row is routed to a station twice, or in vain."""

from __future__ import annotations

import random

import pytest

from anabranch.plan.graph import JoinGraph
from anabranch.plan.join_tree import JoinTree


def tree_of(*edges: str) -> JoinTree:
    aliases = tuple(sorted({alias for edge in edges for alias in edge}))
    found = JoinTree.of(JoinGraph(aliases, tuple(frozenset(edge) for edge in edges), ()))
    assert found is not None
    return found


def random_tree(seed: int) -> JoinTree:
    draw = random.Random(seed)
    names = "abcdefgh"[: draw.randint(2, 8)]
    return tree_of(*(draw.choice(names[:i]) + name for i, name in enumerate(names) if i))


def test_a_cycle_gives_a_spanning_tree() -> None:
    assert [str(e) for e in tree_of("ab", "bc", "ac").edges] == ["a–b", "a–c"]


def test_a_key_of_three_streams_gives_edges_that_share_it() -> None:
    tree = JoinTree.of(JoinGraph(("a", "b", "c", "d"), (frozenset("abc"), frozenset("cd")), ()))
    assert tree is not None
    assert [(str(e), e.key_class) for e in tree.edges] == [("a–b", 0), ("a–c", 0), ("c–d", 1)]


def test_references_that_equalities_do_not_connect_have_no_stations() -> None:
    assert JoinTree.of(JoinGraph(("a", "b", "c"), (frozenset("ab"),), (frozenset("bc"),))) is None


@pytest.mark.parametrize("seed", range(20))
def test_rows_that_arrive_at_a_station_are_those_that_its_bits_allow(seed: int) -> None:
    tree = random_tree(seed)
    for edge in tree.edges:
        for end in (edge.left, edge.right):
            for aliases in tree.rows_at(edge, end):
                assert tree.allows(edge, aliases)
                assert edge in tree.open_edges(aliases)


@pytest.mark.parametrize("seed", range(20))
def test_no_way_through_the_stations_is_redundant_or_void(seed: int) -> None:
    """Whatever rows choose: every station joins something, none twice, and all are passed in the end."""
    tree, draw = random_tree(seed), random.Random(seed)
    parts = [frozenset({alias}) for alias in tree.aliases]
    while len(parts) > 1:
        part = draw.choice(parts)
        edge = draw.choice(tree.open_edges(part))
        assert tree.allows(edge, part)
        (other,) = (p for p in parts if p is not part and p & {edge.left, edge.right})
        assert not tree.passed(part) & tree.passed(other), "no station has joined both already"
        joined = part | other
        assert tree.passed(joined) == tree.passed(part) | tree.passed(other) | 1 << edge.number
        parts = [p for p in parts if p not in (part, other)] + [joined]
    assert tree.passed(parts[0]) == (1 << len(tree.edges)) - 1
    assert not tree.open_edges(parts[0])


def test_a_star_of_eight_streams_has_seven_stations() -> None:
    tree = tree_of(*("a" + other for other in "bcdefgh"))
    assert len(tree.edges) == 7
    assert len(tree.rows_at(tree.edges[0], "a")) == 64
    assert tree.rows_at(tree.edges[0], "b") == (("b",),)
