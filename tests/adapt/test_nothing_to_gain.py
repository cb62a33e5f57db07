"""Loads on which the right adaptation is none, and others on which nothing accepted may do harm."""

from __future__ import annotations

import numpy as np
import pytest

from anabranch.adapt.balance.controller import Controller
from anabranch.adapt.balance.controller_settings import ControllerSettings
from anabranch.adapt.balance.hybrid_policy import HybridPolicy
from anabranch.adapt.balance.proposal import Move
from anabranch.adapt.balance.warm_up import WarmUp
from anabranch.adapt.events import EventKind
from anabranch.adapt.measures.observation import Baseline, Observation, Outcome
from anabranch.adapt.measures.statistics import Floats, Statistics
from anabranch.exchange.address import PARTITIONS
from anabranch.exchange.partition_map import PartitionMap
from anabranch.sim.workload import uniform, zipf
from tests.adapt.batches import BatchDriver

SEEDS = range(6)


def as_on_spark() -> Controller:
    return Controller(HybridPolicy.default(), ControllerSettings(warm_up=True))


def crowded(turns: int = 0) -> Floats:
    """Most of the load on neighbouring partitions, so that one site has it."""
    weights = (np.arange(PARTITIONS) + 5.0) ** -1.2
    return np.roll(weights / weights.sum(), turns * PARTITIONS // 3)


@pytest.mark.parametrize("seed", SEEDS)
def test_a_tiny_load_is_left_alone_however_skewed(seed):
    driver = BatchDriver(as_on_spark(), seed=seed, rows=2_000, noise=0.3, overhead_s=0.3)
    driver.run(crowded(), 30)
    assert not driver.moves
    assert EventKind.LEFT_ALONE in driver.kinds


@pytest.mark.parametrize("seed", SEEDS)
def test_the_same_load_is_balanced_where_it_is_a_material_share_of_the_time(seed):
    driver = BatchDriver(as_on_spark(), seed=seed, rows=50_000, overhead_s=0.01)
    driver.run(crowded(), 12)
    assert driver.ratios[-1] < 0.75 * driver.ratios[0]
    assert driver.saved
    assert min(driver.saved) > 0


@pytest.mark.parametrize("seed", SEEDS)
def test_cold_batches_move_nothing(seed):
    driver = BatchDriver(as_on_spark(), seed=seed, cold=(30.0, 8.0, 3.0))
    driver.run(uniform(PARTITIONS), 30)
    assert not driver.moves


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("noise", [0.05, 0.15, 0.3])
def test_what_was_accepted_does_not_cost_more_than_it_saves(seed, noise):
    driver = BatchDriver(as_on_spark(), seed=seed, noise=noise, cold=(20.0, 4.0))
    for shift in range(3):
        driver.run(zipf(PARTITIONS, keys=20_000, seed=10 * seed + shift), 20)
    assert all(saved >= -noise / 3 for saved in driver.saved), driver.saved


@pytest.mark.parametrize("seed", SEEDS)
def test_a_crowd_that_goes_elsewhere_is_followed_in_the_next_batch(seed):
    driver = BatchDriver(as_on_spark(), seed=seed)
    driver.run(crowded(), 10)
    driver.run(crowded(1), 4)
    assert driver.ratios[10] > 2
    assert driver.ratios[11] < 1.15


def test_a_batch_is_cold_again_after_a_restart():
    controller, here = as_on_spark(), PartitionMap.even(2)
    skewed = Statistics.of_batch([0.9, 0.1], np.where(np.arange(PARTITIONS) < 128, 90, 10))
    assert not any(controller.step(batch, skewed, here).decisions for batch in range(2))
    assert controller.step(2, skewed, here).decisions
    again = Controller.from_json(controller.to_json(), HybridPolicy.default(), controller.settings)
    assert not any(again.step(batch, skewed, here).decisions for batch in (3, 4))
    assert again.step(5, skewed, here).decisions


def test_a_batch_without_rows_warms_nothing():
    warm_up = WarmUp()
    for _ in range(5):
        warm_up = warm_up.after(Statistics.of_batch([0.1], rows=[0]))
    assert warm_up.is_cold


def test_moves_are_judged_by_the_mean_of_several_rounds():
    watched = Observation(1, 0, Outcome(1.0, 1.0), (0.5, 0.5), 0.0, 0, {}).with_moves(0.4, [Move(0, 0, 1)])
    dear, usual = Outcome(1.1, 1.1), Outcome(0.6, 0.6)
    first = watched.with_round(dear, drift=1.0)
    assert not first.due
    last = first.with_round(usual, drift=1.0).with_round(usual, drift=1.0)
    assert last.due
    assert last.relief.critical == pytest.approx(1 - (1.1 * 0.6 * 0.6) ** (1 / 3))
    more = last.with_moves(0.1, [Move(1, 0, 1)])
    assert not more.due, "what was seen before does not count for moves made after it"


def test_a_baseline_is_the_mean_of_the_rounds_before_and_begins_anew_with_the_load():
    baseline = Baseline(Outcome(1.0, 2.0, 0.2), (0.5, 0.5), epoch=0)
    mean = baseline.with_round(Outcome(2.0, 4.0, 0.2), (0.7, 0.3), 0)
    assert (mean.before.critical, mean.before.pace) == (1.5, 3.0)
    assert mean.shares == pytest.approx((0.6, 0.4))
    assert mean.before.noise == pytest.approx(0.2 / np.sqrt(2))
    assert mean.with_round(Outcome(9.0, 9.0), (0.5, 0.5), 1).before.critical == 9.0
    assert Baseline.from_json(mean.to_json()) == mean
