"""What producers, moves and disks cost a simulated site, and what it knows of its own idle time."""

from __future__ import annotations

import numpy as np
import pytest

from anabranch.adapt.balance.proposal import Move
from anabranch.sim.cluster import MB, MBIT, Cluster, Machine, Network
from anabranch.sim.disk_model import DiskModel
from anabranch.sim.mover import Mover
from anabranch.sim.sites import Sites

TICK_S = 0.001
NOTHING = np.zeros(2, np.int64)


def seconds_of_a_move(*, handling_s: tuple[float, float]) -> float:
    """From the order to the restart, with a transfer of 1 MB in 10 ms."""
    network = Network(pair_bytes_per_s=800 * MBIT, total_bytes_per_s=1600 * MBIT)
    mover = Mover(network, np.full(2, MB))
    mover.order(Move(0, 0, 1), rows_ahead=0.0, rows_along=0)
    stall = np.zeros(2)
    for tick in range(1, 1000):
        stall -= np.minimum(stall, TICK_S)
        if mover.advance(NOTHING, np.zeros(2), stall, handling_s=np.array(handling_s), tick_s=TICK_S):
            return tick * TICK_S
    raise AssertionError("the move never ends")


def test_a_partition_is_taken_out_then_sent_then_put_in():
    alone = seconds_of_a_move(handling_s=(0.0, 0.0))
    assert alone == pytest.approx(0.010, abs=2 * TICK_S)
    assert seconds_of_a_move(handling_s=(0.005, 0.0)) - alone == pytest.approx(0.005, abs=TICK_S)
    assert seconds_of_a_move(handling_s=(0.005, 0.020)) - alone == pytest.approx(0.025, abs=TICK_S)


def test_handling_of_less_than_half_a_tick_takes_none():
    assert seconds_of_a_move(handling_s=(0.0004, 0.0004)) == seconds_of_a_move(handling_s=(0.0, 0.0))


def one_site_disk(partitions: int = 4) -> DiskModel:
    return DiskModel(Machine(), np.full(partitions, 2 * MB), np.zeros(partitions, np.int64), 1)


@pytest.mark.parametrize("tick_s", [0.001, 0.007, 0.02, 0.03])
def test_rotation_takes_as_long_in_coarse_ticks_as_in_fine_ones(tick_s):
    """Written, read, then t_gap, the time of reading: three times 2 MB at 20 MB/s and a seek."""
    disk, stall, rotations = one_site_disk(), 0.0, []
    for tick in range(1, round(30 / tick_s)):
        stall -= min(stall, tick_s)
        if stall < tick_s:
            before = disk.queues[0]
            stall += disk.act(0, budget=7 * MB, now=tick * tick_s, occupied_s=stall, tick_s=tick_s)
            if disk.queues[0] != before:
                rotations.append(tick * tick_s)
    apart = np.diff(rotations[5:])
    assert apart.mean() == pytest.approx(0.315, rel=0.005)


def test_idle_time_scatters_with_the_rows_there_were_and_not_with_those_there_could_have_been():
    cluster = Cluster(sites=1)
    site_of, seen = np.zeros(1, np.int64), []
    sites = Sites(cluster, one_site_disk(1), 1, np.random.default_rng(3))
    for _ in range(2000):
        for _ in range(10):
            sites.work(np.array([2]), site_of, tick_s=TICK_S, now=0.0)
        round_ = sites.statistics(np.zeros(1, np.int64), np.zeros(1, np.int64), np.full(1, np.inf))
        seen.append(float(round_.busy_s[0]))
    assert np.mean(seen) == pytest.approx(20 * 45e-6, rel=0.01)
    assert np.std(seen) == pytest.approx(np.sqrt(20) * 3e-6, rel=0.1), "3 µs for each of 20 rows"


@pytest.mark.parametrize("stalled_s", [0.0, 0.0008])
def test_a_producer_shares_the_cpu_but_not_the_disk(stalled_s):
    """1,000 rows of 0.5 µs leave half of a tick of 1 ms; while the disk is waited for, they cost nothing."""
    sites = Sites(Cluster(sites=1), one_site_disk(1), 1, np.random.default_rng(3))
    rows = 0
    for _ in range(1000):
        sites.stall_s[:] = stalled_s
        rows += int(sites.work(np.array([99]), np.zeros(1, np.int64), tick_s=TICK_S, now=0, produced=1000)[0])
    assert rows * 45e-6 == pytest.approx(1000 * TICK_S - 1000 * max(stalled_s, 0.0005), rel=0.01)


def test_rows_that_take_their_producers_longer_than_a_tick_cost_the_ticks_after_it():
    sites = Sites(Cluster(sites=1), one_site_disk(1), 1, np.random.default_rng(3))
    taken = [
        int(sites.work(np.array([99]), np.zeros(1, np.int64), tick_s=TICK_S, now=0, produced=n)[0])
        for n in (4000, 0, 0)
    ]
    assert taken[:2] == [0, 0]
    assert taken[2] > 20
