"""The paper's example of a distributed plan (Zhou, COSMOS, figure 5.4), and what its properties promise."""

from __future__ import annotations

from anabranch.plan.stations.distributed_graph import AnnotatedGraph, DistributedGraph
from anabranch.plan.stations.output_modules import DistributedPlan

FIGURE = AnnotatedGraph(
    homes={"R1": "1", "R2": "2", "R3": "1", "R4": "4", "R5": "5", "R6": "6"},
    joins={
        ("R1", "R3"): "1",
        ("R1", "R2"): "2",
        ("R2", "R4"): "2",
        ("R4", "R5"): "5",
        ("R5", "R6"): "6",
    },
)


def test_the_graph_of_the_figure_has_two_self_contained_places_and_three_partial_ones() -> None:
    graph = DistributedGraph.of(FIGURE)
    assert {p for p in graph.places if graph.is_self_contained(p)} == {"1", "4"}
    assert {p: set(n) for p, n in graph.next.items()} == {
        "1": {"2"},
        "2": set(),
        "4": {"2", "5"},
        "5": {"6"},
        "6": set(),
    }
    assert set(graph.joins["2"]) == {("R1", "R2"), ("R2", "R4")}
    assert set(graph.streams["1"]) == {"R1", "R3"}


def test_every_partial_place_follows_a_self_contained_one() -> None:
    graph = DistributedGraph.of(FIGURE)
    reached = {p for p in graph.places if graph.is_self_contained(p)}
    for _ in graph.places:
        reached |= {target for place in reached for target in graph.next[place]}
    assert reached == set(graph.places)


def test_the_plan_of_the_figure_has_its_ways_and_no_others() -> None:
    plan = DistributedPlan.of(DistributedGraph.of(FIGURE))
    ways = {(m.source, m.target) for m in plan.modules}
    # Rows of place 5 may go to place 2 first and to 6 afterwards, although the graph has no such edge.
    assert ways == {
        ("1", "2"),
        ("4", "2"),
        ("4", "5"),
        ("2", "5"),
        ("5", "2"),
        ("5", "6"),
        ("2", "6"),
        ("6", "2"),
    }
    chosen = {m.source for m in plan.modules if m.collects}
    assert chosen == {"2", "4", "5"}, "places with more than one way out have meta-operators"


def test_bits_ask_for_where_a_row_was_and_forbid_where_it_goes() -> None:
    plan = DistributedPlan.of(DistributedGraph.of(FIGURE))
    way = next(m for m in plan.modules if (m.source, m.target) == ("5", "2"))
    assert way.admits(plan.footprint(["4", "5"]))
    assert way.admits(plan.footprint(["4", "5", "6"]))
    assert not way.admits(plan.footprint(["5"])), "nothing of place 4 in it: void"
    assert not way.admits(plan.footprint(["1", "2", "4", "5"])), "it was there: redundant"


def test_the_running_example_has_the_bits_of_figure_5_2() -> None:
    homes = {"R": "1", "S": "2", "T": "3"}
    plan = DistributedPlan.of(DistributedGraph.of(AnnotatedGraph(homes, {("R", "S"): "1", ("S", "T"): "3"})))
    bits = {
        (m.source, m.target): (plan.written(m.allowing), plan.written(m.validating)) for m in plan.modules
    }
    assert bits == {
        ("2", "1"): ("010", "110"),
        ("2", "3"): ("010", "011"),
        ("1", "3"): ("110", "111"),
        ("3", "1"): ("011", "111"),
    }
