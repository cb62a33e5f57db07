"""Costs of plans, and what units cost."""

from __future__ import annotations

from functools import reduce
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from anabranch.plan.cost.estimates import Estimates
from anabranch.plan.cost.plan_cost import (
    Calibration,
    UnitCosts,
    Work,
    WorkObserved,
    multiway_cost,
    plan_cost,
    probe_orders,
)
from anabranch.plan.tree import Join, Leaf, Plan, parse_plan
from tests.plan.every_plan import every_plan
from tests.plan.statistics import graph, graphs, random_statistics, statistics

CHAIN = graph("abc", ["ab", "bc"])


def test_a_hash_join_costs_probes_pairs_and_inserts() -> None:
    found = Estimates(CHAIN, statistics(CHAIN, rate=10.0, window_s=10.0, selectivity=0.1))
    inner, root = plan_cost(parse_plan("((a b) c)"), found, UnitCosts()).nodes
    assert inner.work == Work(probes=20.0, pairs=pytest.approx(200.0), inserts=pytest.approx(200.0))
    assert root.work == Work(probes=pytest.approx(210.0), pairs=pytest.approx(3000.0), inserts=0.0)
    assert (inner.rows, root.rows) == (pytest.approx(1000.0), 0.0)


def test_a_join_without_a_key_examines_every_pair() -> None:
    asked = graph("abc", ["ab"], ["bc"])
    found = Estimates(asked, statistics(asked, rate=10.0, window_s=10.0, bc=0.001))
    inner, _ = plan_cost(parse_plan("(a (b c))"), found, UnitCosts()).nodes
    assert inner.work.pairs == pytest.approx(2 * 10 * 100)
    assert inner.work.inserts == pytest.approx(2 * 10 * 100 * 0.001)


def test_cost_and_memory_are_those_of_the_nodes() -> None:
    found = Estimates(CHAIN, statistics(CHAIN))
    cost = plan_cost(parse_plan("(a (b c))"), found, UnitCosts())
    assert cost.seconds == sum(node.work.seconds(UnitCosts()) for node in cost.nodes)
    assert cost.rows == found.rows(frozenset("bc"))


def test_a_single_reference_costs_nothing() -> None:
    alone = graph("a", [])
    assert plan_cost(Leaf("a"), Estimates(alone, statistics(alone)), UnitCosts()).seconds == 0


def mirror(plan: Plan) -> Plan:
    return Join(mirror(plan.right), mirror(plan.left)) if isinstance(plan, Join) else plan


@given(st.data())
def test_mirror_images_cost_the_same(data: st.DataObject) -> None:
    asked = data.draw(graphs(largest=4))
    found = Estimates(asked, data.draw(random_statistics(asked)))
    for plan in every_plan(asked):
        costs = (plan_cost(p, found, UnitCosts()).seconds for p in (plan, mirror(plan)))
        assert next(costs) == pytest.approx(next(costs))


def test_rows_probe_where_they_have_the_fewest_partners_first() -> None:
    asked = graph("abcd", ["abcd"])
    found = Estimates(asked, statistics(asked, ac=0.0001, ad=0.001, ab=0.1, cd=0.1, bc=0.1, bd=0.1))
    assert probe_orders(found)["a"] == ("c", "d", "b")


def test_probes_follow_keys_before_predicates_before_products() -> None:
    asked = graph("abcd", ["ab"], ["bc"])
    found = Estimates(asked, statistics(asked, ab=1.0, bc=1e-6))
    assert probe_orders(found)["a"] == ("b", "c", "d")
    assert probe_orders(found)["d"] == ("a", "b", "c")


def test_a_plan_without_intermediate_states_keeps_nothing_but_puts_rows_together_again_and_again() -> None:
    found = Estimates(CHAIN, statistics(CHAIN, rate=10.0, window_s=10.0, selectivity=0.1))
    cost = multiway_cost(found, UnitCosts())
    assert cost.rows == 0
    assert [node.work.inserts for node in cost.nodes] == pytest.approx([100.0, 100.0, 100.0])
    # each row has 10 partners in the next state: 10 probes, then 100 pairs, or 2 × 10 from the middle
    assert [node.work.probes for node in cost.nodes] == pytest.approx([110.0, 110.0, 110.0])
    assert [node.work.pairs for node in cost.nodes] == pytest.approx([1100.0, 1100.0, 1100.0])
    assert [node.aliases[0] for node in cost.nodes] == ["a", "b", "c"]


def test_inserts_make_the_plan_with_states_dearer_and_repeated_work_the_one_without() -> None:
    """Few partners at the bottom: the state saves work. Many that rarely matter: it costs more."""
    units = UnitCosts(insert_s=5e-7)
    reuse = Estimates(CHAIN, statistics(CHAIN, rates={"c": 5000.0}, ab=0.0001, bc=0.001))
    churn = Estimates(CHAIN, statistics(CHAIN, rates={"c": 0.1}, ab=0.5, bc=0.1))
    plan = parse_plan("((a b) c)")
    assert plan_cost(plan, reuse, units).seconds < multiway_cost(reuse, units).seconds
    assert plan_cost(plan, churn, units).seconds > multiway_cost(churn, units).seconds


TRUE = UnitCosts(probe_s=5e-7, pair_s=4e-8, insert_s=9e-7)


def observations(units: UnitCosts, *, number: int = 30, noise: float = 0.0) -> list[WorkObserved]:
    rng = np.random.default_rng(1)
    works = [Work(*(float(n) for n in rng.integers(1e4, 1e6, 3))) for _ in range(number)]
    return [WorkObserved(work, work.seconds(units) * float(rng.normal(1, noise))) for work in works]


def calibrated(observed: list[WorkObserved]) -> UnitCosts:
    """Units fitted to observations, the oldest first."""
    return reduce(Calibration.add, observed, Calibration()).unit_costs()


def test_units_are_found_from_what_work_took() -> None:
    found = calibrated(observations(TRUE, noise=0.02))
    assert found.probe_s == pytest.approx(TRUE.probe_s, rel=0.2)
    assert found.pair_s == pytest.approx(TRUE.pair_s, rel=0.5)
    assert found.insert_s == pytest.approx(TRUE.insert_s, rel=0.2)


def test_what_cannot_be_told_apart_keeps_its_proportions() -> None:
    always_alike = [WorkObserved(Work(1e5, 1e5, 1e5), 3 * Work(1e5, 1e5, 1e5).seconds(UnitCosts()))] * 5
    usual, found = UnitCosts(), calibrated(always_alike)
    assert found.probe_s / usual.probe_s == pytest.approx(3, rel=0.05)
    assert found.pair_s / usual.pair_s == pytest.approx(3, rel=0.05)
    assert found.gather_s / usual.gather_s == pytest.approx(3, rel=0.05)


def test_nothing_observed_is_the_usual() -> None:
    assert calibrated([]) == UnitCosts()
    assert calibrated([WorkObserved(Work(0, 0, 0), 0.0)]) == UnitCosts()


def test_old_observations_are_forgotten() -> None:
    slow = UnitCosts(*(10 * c for c in (TRUE.probe_s, TRUE.pair_s, TRUE.insert_s)))
    errors = [
        abs(calibrated(observations(TRUE) + observations(slow, number=n)).probe_s / slow.probe_s - 1)
        for n in (1, 10, 30)
    ]
    assert all(later < earlier for earlier, later in pairwise(errors))
    assert errors[-1] < 0.1


@given(st.lists(st.tuples(*[st.floats(0, 1e7)] * 3, st.just(0.0) | st.floats(1e-6, 100)), max_size=8))
def test_units_are_never_negative_and_calibration_survives_json(observed: list[tuple[float, ...]]) -> None:
    calibration = Calibration()
    for probes, pairs, inserts, seconds in observed:
        calibration = calibration.add(WorkObserved(Work(probes, pairs, inserts), seconds))
    units = calibration.unit_costs()
    assert min(units.probe_s, units.pair_s, units.insert_s, units.gather_s) > 0
    assert Calibration.from_json(calibration.to_json()) == calibration
