"""What a batch costs whatever its rows are: probes of blocks."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from anabranch.plan.cost.estimates import MOST_BLOCKS, Estimates
from anabranch.plan.cost.migration_cost import moving_state_cost, parallel_track_cost
from anabranch.plan.cost.plan_cost import Calibration, UnitCosts, Work, WorkObserved
from anabranch.plan.cost.probe_counts import JOIN, TRACK, plan_block_probes
from anabranch.plan.tree import parse_plan
from tests.plan.statistics import graph, statistics

CHAIN = graph("abcd", ["ab", "bc", "cd"])
OLD, NEW = parse_plan("(((a b) c) d)"), parse_plan("(((b c) d) a)")
ONLY_VISITS = UnitCosts(0.0, 0.0, 0.0, 0.0, block_probe_s=1.0)


def known(rate: float = 1000.0, *, batch_s: float = 2.0, **more):
    return replace(statistics(CHAIN, rate=rate, window_s=10.0, **more), batch_s=batch_s)


def block_probes(plan: str = "(((a b) c) d)", **more) -> float:
    return plan_block_probes(parse_plan(plan), Estimates(CHAIN, known(**more)))


def test_dense_batches_find_something_in_every_block_of_every_state() -> None:
    blocks = 10 / 2 + 1
    assert block_probes() == pytest.approx(TRACK + 3 * (2 * blocks + 1 + JOIN))


def test_blocks_are_merged_beyond_a_number_and_are_no_more_than_batches() -> None:
    assert block_probes(batch_s=0.01) == pytest.approx(TRACK + 3 * (2 * MOST_BLOCKS + 1 + JOIN))
    young = replace(known(), batches=2.0)
    assert plan_block_probes(OLD, Estimates(CHAIN, young)) == pytest.approx(TRACK + 3 * (2 * 2 + 1 + JOIN))


def test_sparse_batches_find_little() -> None:
    assert block_probes(rate=1.0, selectivity=0.001) < TRACK + 1


def test_probing_without_states_visits_the_streams_again_and_again() -> None:
    assert block_probes("[a b c d, b a c d, c b a d, d c b a]") == pytest.approx(TRACK + 4 * 3 * (6 + JOIN))


def test_nothing_is_counted_where_the_length_of_a_batch_is_not_known() -> None:
    assert block_probes(batch_s=0.0) == 0


def migrations(**more):
    asked = {"graph": CHAIN, "statistics": known(**more), "costs": ONLY_VISITS}
    return moving_state_cost(OLD, NEW, **asked), parallel_track_cost(OLD, NEW, **asked)


def test_a_second_track_costs_its_visits_in_every_batch_of_a_window() -> None:
    _, parallel = migrations()
    per_batch, half_filled = (TRACK + 3 * (2 * blocks + 1 + JOIN) for blocks in (6, 3))
    assert parallel.processing_s == pytest.approx((10 / 2) * (per_batch + half_filled))
    assert parallel.cost_s == pytest.approx((10 / 2) * half_filled)


def test_rebuilding_visits_every_block_by_every_other_and_leaves_one() -> None:
    moving, _ = migrations()
    # b with c, then the one block of bc with d
    assert moving.processing_s == pytest.approx(6 * 6 + JOIN + 1 * 6 + JOIN)
    assert moving.processing_s - moving.cost_s == pytest.approx(2 * 6 * 5 / 2)


def test_a_dearer_plan_put_off_is_a_gain_that_is_not_cut_to_nothing() -> None:
    asked = {"graph": CHAIN, "statistics": statistics(CHAIN, ab=0.0001, cd=1.0), "costs": UnitCosts()}
    assert parallel_track_cost(OLD, parse_plan("(((c d) b) a)"), **asked).cost_s < 0


def test_what_a_visit_costs_is_found_where_loads_differ() -> None:
    true = UnitCosts(block_probe_s=2e-4)
    calibration = Calibration()
    for rows in (1e2, 1e4, 1e5) * 10:
        work = Work(rows, 2 * rows, rows, block_probes=200.0)
        calibration = calibration.add(WorkObserved(work, work.seconds(true)))
    assert calibration.unit_costs().block_probe_s == pytest.approx(true.block_probe_s, rel=0.05)


def test_noise_of_batches_that_are_all_alike_does_not_shift_cost_from_one_unit_to_another() -> None:
    calibration = Calibration()
    for number in range(40):
        work = Work(4000.0 + number % 3, 3000.0 - number % 5, 2000.0 + number % 2, block_probes=60.0)
        calibration = calibration.add(
            WorkObserved(work, work.seconds(UnitCosts()) * (1.2 - 0.1 * (number % 5)))
        )
    found, usual = calibration.unit_costs(), UnitCosts()
    for unit in ("probe_s", "pair_s", "insert_s", "block_probe_s"):
        assert 0.7 < getattr(found, unit) / getattr(usual, unit) < 1.4


def test_a_calibration_of_other_terms_starts_over() -> None:
    assert Calibration.from_json({"products": [1.0] * 9, "moments": [1.0] * 3}) == Calibration()
    assert math.isclose(Calibration().unit_costs().block_probe_s, UnitCosts().block_probe_s)
