"""Bits of the distributed join graph: no row is routed to a station twice, or in vain."""

from __future__ import annotations

import itertools
import random
from collections import Counter

import pytest

from anabranch.plan.graph import JoinGraph
from anabranch.plan.stations.join_tree import Edge, JoinTree
from anabranch.plan.stations.spanning_trees import spanning_trees


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


def leading_out(tree: JoinTree, aliases: tuple[str, ...]) -> set[Edge]:
    """By the definition: edges with one end among some references."""
    return {e for e in tree.edges if (e.left in aliases) != (e.right in aliases)}


@pytest.mark.parametrize("seed", range(20))
def test_the_bits_let_rows_go_where_an_edge_leads_out_of_them_and_nowhere_else(seed: int) -> None:
    tree = random_tree(seed)
    for edge in tree.edges:
        for rows in itertools.product(tree.rows_at(edge, edge.left), tree.rows_at(edge, edge.right)):
            made = tuple(alias for alias in tree.aliases if alias in rows[0] + rows[1])
            assert set(tree.ways(made, edge)) == leading_out(tree, made), "no way is missing, none is void"
            assert set(tree.onward(made)) == leading_out(tree, made), "wherever it was made"
    for alias in tree.aliases:
        assert tree.ways((alias,)) == tree.edges_of(alias)


@pytest.mark.parametrize("seed", range(20))
def test_no_station_joins_rows_that_have_passed_it_or_have_a_reference_in_common(seed: int) -> None:
    tree = random_tree(seed)
    for edge in tree.edges:
        bit = tree.plan.bits[str(edge)]
        for left, right in itertools.product(tree.rows_at(edge, edge.left), tree.rows_at(edge, edge.right)):
            assert edge.left in left, "nothing arrives in vain"
            assert edge.right in right
            assert not set(left) & set(right)
            assert not (tree.footprint(left) | tree.footprint(right)) & bit, "nothing arrives twice"
            made = tree.footprint((*left, *right))
            assert made == tree.footprint(left) | tree.footprint(right) | bit


@pytest.mark.parametrize("seed", range(20))
def test_whatever_rows_choose_all_stations_are_passed_in_the_end(seed: int) -> None:
    tree, draw = random_tree(seed), random.Random(seed)
    parts = [(alias,) for alias in tree.aliases]
    while len(parts) > 1:
        part = draw.choice(parts)
        edge = draw.choice(tree.onward(part))
        (other,) = (p for p in parts if p is not part and {*p} & {edge.left, edge.right})
        parts = [p for p in parts if p not in (part, other)] + [part + other]
    assert tree.footprint(parts[0]) == sum(tree.plan.bits.values())
    assert not tree.onward(parts[0])


def test_of_a_cycle_the_cheapest_edges_are_taken() -> None:
    graph = JoinGraph(("a", "b", "c"), (frozenset("ab"), frozenset("bc"), frozenset("ac")), ())
    dear = JoinTree.of(graph, lambda left, right, _: (left + right == "ab",))
    assert dear is not None
    assert [str(e) for e in dear.edges] == ["a–c", "b–c"]


def test_a_star_of_eight_streams_has_seven_stations() -> None:
    tree = tree_of(*("a" + other for other in "bcdefgh"))
    assert len(tree.edges) == 7
    assert len(tree.rows_at(tree.edges[0], "a")) == 64
    assert tree.rows_at(tree.edges[0], "b") == (("b",),)


Row = dict[str, tuple[int, ...]]
"""By reference, values of its keys by class, and a number of its own."""


def everything_met(draw: random.Random, graph: JoinGraph, tree: JoinTree, rows: list[Row]) -> Counter[str]:
    """Let rows arrive at stations in any order, joined ones too, each where it likes; counts results."""
    waiting: list[tuple[Row, Edge | None]] = [(row, None) for row in rows]
    kept: dict[tuple[int, str], list[Row]] = {
        (e.number, a): [] for e in tree.edges for a in (e.left, e.right)
    }
    results = Counter[str]()
    while waiting:
        row, made_at = waiting.pop(draw.randrange(len(waiting)))
        if len(row) == len(tree.aliases):
            results[str(sorted(row.items()))] += 1
            continue
        aliases = tuple(a for a in tree.aliases if a in row)
        edge = draw.choice(tree.ways(aliases, made_at))
        end, other = (edge.left, edge.right) if edge.left in row else (edge.right, edge.left)
        kept[edge.number, end].append(row)
        waiting += [(row | met, edge) for met in kept[edge.number, other] if are_equal(graph, row, met)]
    return results


def are_equal(graph: JoinGraph, one: Row, other: Row) -> bool:
    """Whether all equalities between rows of two sets of references hold."""
    return all(one[a][c] == other[b][c] for a in one for b in other for c in graph.shared_classes((a,), (b,)))


@pytest.mark.parametrize("seed", range(40))
def test_every_combination_is_met_once_whatever_way_rows_take(seed: int) -> None:
    """The rule of stations by brute force: random graphs, cycles among them, and any spanning tree."""
    draw = random.Random(seed)
    names = "abcde"[: draw.choice((3, 4, 5))]
    pairs = [(names[draw.randrange(i)], name) for i, name in enumerate(names) if i]
    pairs += [tuple(sorted(draw.sample(names, 2))) for _ in range(draw.choice((0, 1, 2)))]
    graph = JoinGraph(tuple(names), tuple(frozenset(pair) for pair in pairs), ())
    tree = draw.choice(list(spanning_trees(graph)))
    by_name = {name: [(*(draw.randrange(2) for _ in pairs), number) for number in range(3)] for name in names}
    rows: list[Row] = [{name: values} for name, its in by_name.items() for values in its]
    expected = Counter(
        str(sorted(zip(names, combined, strict=True)))
        for combined in itertools.product(*by_name.values())
        if all(
            are_equal(graph, {a: x}, {b: y})
            for (a, x), (b, y) in itertools.combinations(zip(names, combined, strict=True), 2)
        )
    )
    assert everything_met(draw, graph, tree, rows) == expected
