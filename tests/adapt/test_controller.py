"""The controller, driven batch by batch as on Spark."""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from anabranch.adapt.balance.controller import Controller, Phase
from anabranch.adapt.balance.controller_settings import ControllerSettings
from anabranch.adapt.balance.hybrid_policy import HybridPolicy
from anabranch.adapt.balance.load_policy import LoadPolicy
from anabranch.adapt.balance.policy import Thresholds
from anabranch.adapt.balance.proposal import Move, PolicyName, Proposal
from anabranch.adapt.events import EventKind
from anabranch.adapt.measures.statistics import Statistics
from anabranch.exchange.address import PARTITIONS
from anabranch.exchange.partition_map import PartitionMap
from anabranch.sim.workload import uniform, zipf
from tests.adapt.batches import BatchDriver


def default() -> Controller:
    return Controller(HybridPolicy.default())


@pytest.mark.parametrize("seed", range(4))
def test_a_shifting_zipf_load_is_balanced_again_within_five_batches(seed):
    driver = BatchDriver(default(), seed=seed)
    for shift in range(3):
        driver.run(zipf(PARTITIONS, keys=20_000, seed=10 * seed + shift), 20)
        assert max(driver.ratios[-15:]) <= 1.1, driver.ratios[-20:]
    assert driver.undone_within(10) == 0


@pytest.mark.parametrize("noise", [0.0, 0.05, 0.1, 0.2, 0.4])
@pytest.mark.parametrize("rows", [2_000, 50_000])
def test_a_uniform_load_is_left_alone_however_noisy_the_measurements(noise, rows):
    driver = BatchDriver(default(), noise=noise, rows=rows)
    driver.run(uniform(PARTITIONS), 60)
    assert not driver.moves


def test_a_steady_skew_is_packed_once_and_then_left_alone():
    driver = BatchDriver(default())
    driver.run(zipf(PARTITIONS, keys=20_000, seed=3), 60)
    assert all(at < 10 for at, _ in driver.moves)
    assert driver.undone_within(10) == 0


def test_a_site_that_slows_down_is_relieved():
    driver = BatchDriver(default(), noise=0.03)
    driver.run(uniform(PARTITIONS), 5)
    driver.run(uniform(PARTITIONS), 25, slow={2: 2.3})
    assert np.mean(driver.ratios[-10:]) <= 1.12
    assert driver.undone_within(10) == 0


def test_a_load_that_shifts_in_every_batch_makes_it_stop():
    driver = BatchDriver(default())
    for shift in range(80):
        driver.run(zipf(PARTITIONS, keys=20_000, seed=shift), 1)
    assert EventKind.PAUSED in driver.kinds
    assert len({at for at, _ in driver.moves}) <= 16


@pytest.mark.parametrize("batches", [6, 12, 24])
def test_a_load_that_drifts_is_followed_and_not_taken_for_moves_that_do_not_pay(batches):
    driver = BatchDriver(default(), seed=3)
    loads = [zipf(PARTITIONS, keys=20_000, seed=seed) for seed in range(300, 305)]
    driver.run(loads[0], 10)
    for before, after in pairwise(loads):
        for step in range(1, batches + 1):
            driver.run(before + (after - before) * step / batches, 1)
    assert EventKind.PAUSED not in driver.kinds
    assert np.mean(driver.ratios[10:]) <= 1.15


class Meddler:
    """A policy that swaps partitions for no reason and promises much."""

    def propose(self, view, thresholds: Thresholds):
        del thresholds
        order = np.argsort(view.load_of_sites())
        busiest = int(order[-1])
        idlest = next(int(s) for s in order if len(view.partitions_of(int(s))))
        own = [p for p in view.partitions_of(idlest) if view.may_move(int(p), busiest)]
        return tuple(
            Proposal(Move(int(p), idlest, busiest), PolicyName.LOAD, "because", expected=0.5) for p in own[:8]
        )


def test_a_policy_that_makes_things_worse_is_noticed_and_stopped():
    driver = BatchDriver(Controller(Meddler(), ControllerSettings(worth=None)))
    driver.run(uniform(PARTITIONS), 40)
    assert EventKind.PAUSED in driver.kinds
    assert len({at for at, _ in driver.moves}) <= 12


def test_moves_that_a_policy_proposes_for_no_gain_are_not_made():
    driver = BatchDriver(Controller(Meddler()))
    driver.run(uniform(PARTITIONS), 20)
    assert not driver.moves
    assert driver.kinds == [EventKind.LEFT_ALONE], "which is told once"


def test_proposals_are_refused_with_a_reason():
    class Wrong:
        def propose(self, view, thresholds):
            del view, thresholds
            moves = [Move(0, 0, 9), Move(0, 1, 0), Move(1, 0, 0), Move(2, 0, 1), Move(2, 0, 1)]
            return tuple(Proposal(m, PolicyName.MEMORY, "", expected=1.0) for m in moves)

    step = Controller(Wrong()).step(0, Statistics.of_batch([1, 1], np.ones(PARTITIONS)), PartitionMap.even(2))
    assert [d.why for d in step.decisions] == [
        "there is no site 9",
        "the partition belongs to site 0",
        "it is there already",
        "",
        "it moves in this round already",
    ]
    assert [e.kind for e in step.events].count(EventKind.MOVE_REFUSED) == 4
    assert step.partition_map.site_of_partition[2] == 1


def test_events_tell_expected_and_observed_benefit():
    driver = BatchDriver(default())
    steps = [driver.step(zipf(PARTITIONS, keys=20_000, seed=1), {}) for _ in range(8)]
    events = [e for step in steps for e in step.events]
    accepted = [e for e in events if e.kind is EventKind.MOVE_ACCEPTED]
    assert "common level" in accepted[0].message
    observed = next(e for e in events if e.kind is EventKind.BENEFIT_OBSERVED)
    assert observed.batch >= accepted[-1].batch + 3, "one batch says little"
    assert observed.data["observed"] > 0
    json.dumps([e.to_json() for e in events])


def test_ordered_moves_change_the_map_when_they_have_finished():
    controller = Controller(LoadPolicy(), ControllerSettings.as_published(minimum_round=1.0))
    batch = Statistics.of_batch([0.9, 0.1], np.where(np.arange(PARTITIONS) < 128, 9, 1))
    before = PartitionMap.even(2)
    controller.step(0.0, batch, before)
    ordered = controller.step(1.0, batch, before)
    assert (ordered.partition_map, len(ordered.orders), controller.phase) == (before, 1, Phase.MOVING)
    assert controller.step(2.0, batch, before).orders == ()
    done = controller.step(4.0, batch, before, finished=ordered.orders)
    move = ordered.orders[0]
    assert done.partition_map.site_of_partition[move.partition] == move.target
    assert controller.due_at == 7.0, "the next collection is as long as the last move phase"


def test_without_moves_the_collection_phase_is_halved_down_to_its_minimum():
    controller = Controller(LoadPolicy(), ControllerSettings.as_published(minimum_round=1.0))
    batch = Statistics.of_batch([0.9, 0.1], np.where(np.arange(PARTITIONS) < 128, 9, 1))
    calm = Statistics.of_batch([1.0, 1.0], np.ones(PARTITIONS))
    controller.step(0.0, batch, PartitionMap.even(2))
    orders = controller.step(1.0, batch, PartitionMap.even(2)).orders
    controller.step(5.0, batch, PartitionMap.even(2), finished=orders)
    ends = []
    for _ in range(4):
        ends.append(controller.due_at)
        controller.step(controller.due_at, calm, PartitionMap.even(2))
    assert np.diff([5.0, *ends]).tolist() == [4.0, 2.0, 1.0, 1.0]


@settings(max_examples=15, deadline=None)
@given(st.integers(0, 1000), st.integers(1, 12))
def test_after_a_restart_it_decides_as_if_nothing_had_happened(seed, crash):
    shares = zipf(PARTITIONS, keys=5_000, seed=seed)
    whole, broken = (BatchDriver(default(), seed=seed, rows=20_000) for _ in range(2))
    whole.run(shares, 14)
    broken.run(shares, crash)
    remembered = json.loads(json.dumps(broken.controller.to_json()))
    broken.controller = Controller.from_json(remembered, HybridPolicy.default())
    broken.run(shares, 14 - crash)
    assert broken.moves == whole.moves
    assert broken.map == whole.map
    assert broken.undone_within(10) == 0


@settings(max_examples=20, deadline=None)
@given(st.lists(st.tuples(st.integers(1, 9), st.integers(0, 50)), min_size=1, max_size=8))
def test_the_number_of_sites_may_change_and_the_map_stays_valid(steps):
    controller = default()
    for batch, (sites, seed) in enumerate(steps):
        rows = np.random.default_rng(seed).multinomial(10_000, zipf(PARTITIONS, keys=999, seed=seed))
        before = PartitionMap.even(sites)
        busy = 1e-6 * np.bincount(before.as_array(), weights=rows, minlength=sites)
        after = controller.step(batch, Statistics.of_batch(busy, rows), before).partition_map
        assert after.sites == sites
        assert all(0 <= s < sites for s in after.site_of_partition)


def test_moves_for_memory_go_on_while_moves_for_load_are_paused():
    controller, here = default(), PartitionMap.even(4)
    controller.tuning = replace(controller.tuning, pause_left=100)
    on_disk = np.zeros(PARTITIONS, np.bool_)
    on_disk[np.flatnonzero(here.as_array() == 0)[:20]] = True
    batch = Statistics.of_batch(
        [0.1] * 4,
        np.full(PARTITIONS, 100),
        state_bytes=np.full(PARTITIONS, 1_000_000),
        on_disk=on_disk,
        memory_bytes=[40e6, 200e6, 200e6, 200e6],
    )
    moved = []
    for now in range(4):
        moved += [d for d in controller.step(now, batch, here).decisions if d.accepted]
    assert controller.tuning.paused
    assert moved
    assert {d.proposal.policy for d in moved} == {PolicyName.MEMORY}
