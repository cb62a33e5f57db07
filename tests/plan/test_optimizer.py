"""The optimizer finds the cheapest plan there is."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from anabranch.plan.cost.estimates import Estimates
from anabranch.plan.cost.plan_cost import UnitCosts, plan_cost
from anabranch.plan.search.optimizer import best_plan, ranked
from anabranch.plan.tree import default_plan
from tests.plan.every_plan import every_plan
from tests.plan.statistics import graph, graphs, random_statistics, statistics

COSTS = UnitCosts()


@given(st.data())
def test_dynamic_programming_finds_what_exhaustive_search_finds(data: st.DataObject) -> None:
    asked = data.draw(graphs(largest=5))
    known = data.draw(random_statistics(asked))
    found = Estimates(asked, known)
    every = sorted(plan_cost(plan, found, COSTS).seconds for plan in every_plan(asked))
    best = best_plan(found, COSTS)
    assert best.cost.seconds == pytest.approx(every[0])
    assert best.plan in set(every_plan(asked))
    some = ranked(found, COSTS, limit=7)
    assert [rated.cost.seconds for rated in some] == pytest.approx(every[:7])
    assert len({str(rated.plan) for rated in some}) == len(some)


def test_the_most_selective_pair_goes_first() -> None:
    asked = graph("abcd", ["abcd"])
    assert str(best_plan(Estimates(asked, statistics(asked, bd=1e-5)), COSTS).plan) == "((a (b d)) c)"


def test_a_bushy_plan_is_found_where_it_is_best() -> None:
    asked = graph("abcd", ["ab", "bc", "cd"])
    known = Estimates(asked, statistics(asked, ab=1e-4, cd=1e-4, bc=0.5))
    assert str(best_plan(known, COSTS).plan) == "((a b) (c d))"


def test_a_stream_that_falls_silent_goes_first() -> None:
    asked = graph("abc", ["abc"])
    known = statistics(asked, rates={"c": 0.0}, rows={"c": 0.0})
    assert "c)" in str(best_plan(Estimates(asked, known), COSTS).plan).removesuffix(" c)")


def test_two_references_have_one_plan_and_one_has_none_to_pay_for() -> None:
    two, one = graph("ab", ["ab"]), graph("a", [])
    assert [str(r.plan) for r in ranked(Estimates(two, statistics(two)), COSTS)] == ["(a b)"]
    assert best_plan(Estimates(one, statistics(one)), COSTS).cost.seconds == 0


def test_the_same_statistics_give_the_same_plan() -> None:
    asked = graph("abcde", ["abcde"])
    assert len({str(best_plan(Estimates(asked, statistics(asked)), COSTS).plan) for _ in range(5)}) == 1


def test_of_equal_plans_the_one_in_the_order_of_from_is_taken() -> None:
    asked = graph("abc", ["abc"])
    assert best_plan(Estimates(asked, statistics(asked)), COSTS).plan == default_plan(asked)


def test_eight_references_are_quickly_ordered() -> None:
    asked = graph("abcdefgh", ["abcdefgh"])
    known = statistics(asked, selectivity=0.003, ce=1e-4, ah=2e-5)
    taken = []
    for _ in range(3):
        start = time.process_time()
        best_plan(Estimates(asked, known), COSTS)
        taken.append(time.process_time() - start)
    assert min(taken) < 0.05
