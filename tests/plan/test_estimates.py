"""Estimates: sizes of states and rates of rows."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from anabranch.plan.cost.estimates import Estimates, JoinStatistics, edges_of, window_seconds
from tests.plan.queries import query
from tests.plan.statistics import graph, graphs, random_statistics, statistics


def rows(asked: Estimates, names: str) -> float:
    return asked.rows(frozenset(names))


def test_a_state_holds_what_arrives_in_a_window() -> None:
    asked = graph("ab", ["ab"])
    found = Estimates(asked, statistics(asked, rate=20.0, window_s=5.0, ab=0.1))
    assert rows(found, "a") == 100
    assert rows(found, "ab") == pytest.approx(100 * 100 * 0.1)


def test_the_rate_of_a_join_is_that_of_equation_2() -> None:
    asked = graph("ab", ["ab"])
    found = Estimates(asked, statistics(asked, rates={"a": 30.0, "b": 70.0}, window_s=5.0, ab=0.1))
    assert found.rate(frozenset("ab")) == pytest.approx(2 * 30 * 70 * 5 * 0.1)


def test_equality_is_transitive_so_it_is_counted_once() -> None:
    asked = graph("abc", ["abc"])
    found = Estimates(asked, statistics(asked, rate=10.0, window_s=10.0, selectivity=0.01))
    assert rows(found, "abc") == pytest.approx(100**3 * 0.01**2)


def test_different_keys_are_independent() -> None:
    asked = graph("abc", ["ab", "bc", "ac"])
    found = Estimates(asked, statistics(asked, rate=10.0, window_s=10.0, selectivity=0.01))
    assert rows(found, "abc") == pytest.approx(100**3 * 0.01**3)


def test_members_of_a_class_that_disagree_are_averaged_and_the_smallest_size_counts() -> None:
    asked = graph("abc", ["abc"])
    found = Estimates(asked, statistics(asked, rate=1.0, window_s=100.0, ab=0.04, ac=0.01, bc=0.0004))
    last = {"c": 0.04 * (0.01 * 0.0004) ** 0.5, "b": 0.01 * (0.04 * 0.0004) ** 0.5, "a": 0.0004 * 0.02}
    assert rows(found, "abc") == pytest.approx(100**3 * min(last.values()))


TWO_REASONS = {
    "a second key between two of three": (graph("abc", ["abc", "ab"]), {"ab": 0.02 * 0.1}),
    "a predicate beside the key": (graph("abc", ["abc"], ["ab"]), {"ab": 0.02 * 0.5}),
}


@pytest.mark.parametrize(("asked", "given_ab"), TWO_REASONS.values(), ids=TWO_REASONS.keys())
def test_a_pair_joined_for_two_reasons_is_told_apart_by_the_other_pairs(asked, given_ab) -> None:
    found = Estimates(asked, statistics(asked, rate=10.0, window_s=10.0, selectivity=0.02, **given_ab))
    assert rows(found, "abc") == pytest.approx(100**3 * 0.02 * given_ab["ab"])


def test_two_keys_everywhere_are_one() -> None:
    one, two = graph("abc", ["abc"]), graph("abc", ["abc", "abc"])
    assert rows(Estimates(two, statistics(two, ab=0.2)), "abc") == pytest.approx(
        rows(Estimates(one, statistics(one, ab=0.2)), "abc")
    )


def test_a_predicate_over_three_references_is_no_edge() -> None:
    assert edges_of(graph("abc", ["ab"], ["abc"])) == (frozenset("ab"),)


def test_counted_rows_go_before_rate_times_window() -> None:
    asked = graph("ab", ["ab"])
    known = statistics(asked, rows={"a": 7.0})
    assert (known.rows_of("a"), known.rows_of("b")) == (7.0, 1000.0)
    assert known.settled().rows_of("a") == 1000.0


def test_an_unbounded_window_needs_counted_rows() -> None:
    unbounded = JoinStatistics({"a": 1.0}, {"a": math.inf}, {})
    with pytest.raises(ValueError, match="'a' is unbounded"):
        unbounded.rows_of("a")
    counted = JoinStatistics({"a": 1.0}, {"a": math.inf}, {}, {"a": 5.0})
    assert counted.settled().rows_of("a") == 5.0


def test_a_missing_selectivity_is_named() -> None:
    with pytest.raises(ValueError, match="edge a – b"):
        Estimates(graph("ab", ["ab"]), JoinStatistics({}, {}, {}))


def test_windows_of_a_query_are_in_seconds() -> None:
    assert window_seconds(query("a.k = b.k AND b.k = c.k")) == {"a": 1.0, "b": 2.0, "c": 3.0}


@given(st.data())
def test_a_join_makes_what_its_sides_make_of_each_other_whatever_the_sides(data: st.DataObject) -> None:
    """λ_S = λ_L |R| σ + λ_R |L| σ for every split: the rate does not depend on the plan."""
    asked = data.draw(graphs())
    found = Estimates(asked, data.draw(random_statistics(asked)))
    whole = frozenset(asked.aliases)
    for size in range(1, len(whole)):
        left, right = frozenset(asked.aliases[:size]), frozenset(asked.aliases[size:])
        sigma = found.rows(whole) / found.rows(left) / found.rows(right)
        made = sigma * (found.rate(left) * found.rows(right) + found.rate(right) * found.rows(left))
        assert found.rate(whole) == pytest.approx(made)
