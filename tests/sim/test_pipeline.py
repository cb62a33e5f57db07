"""The simulator: rows are conserved, runs repeat, blocking and disks behave."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from anabranch.adapt.memory.skew_buffer import SkewBuffer
from anabranch.reproduce.flux.flux_setups import (
    memory_pressure,
    our_hybrid,
    our_load,
    published_hybrid,
    published_load,
    published_memory,
    small_cluster,
)
from anabranch.sim.cluster import MB, Cluster, Machine, busy_process
from anabranch.sim.exchange import Exchange
from anabranch.sim.pipeline import Pipeline, Stage
from anabranch.sim.workload import self_similar, uniform, zipf

CONTROLLERS = {
    "static": lambda: None,
    "published load": published_load,
    "published memory": published_memory,
    "published hybrid": published_hybrid,
    "our load": our_load,
    "our hybrid": our_hybrid,
}


def pressed_stage(*, seed: int = 0) -> Stage:
    pressure = (*busy_process([0]), *memory_pressure([1], start_s=0.5, memory_bytes=40 * MB))
    cluster = Cluster(
        sites=4,
        machine=Machine(memory_bytes=64 * MB),
        network=small_cluster(sites=4).network,
        disturbances=pressure,
    )
    shares = zipf(64, keys=1000, exponent=0.5, seed=seed)
    return Stage(cluster, shares, state_bytes=2 * MB, buffer_rows=512, spills=True, seed=seed)


@pytest.mark.parametrize("controller", CONTROLLERS.values(), ids=CONTROLLERS.keys())
def test_every_row_produced_is_processed_or_still_inside(controller):
    trace = Pipeline(pressed_stage(), controller()).run(3.0, interval_s=0.5)
    assert trace.processed + trace.left_inside == trace.produced
    assert trace.processed > 0


@settings(max_examples=3, deadline=None)
@given(st.integers(0, 1000))
def test_a_seed_determines_a_run(seed):
    one, two = (Pipeline(pressed_stage(seed=seed), published_hybrid()).run(1.0) for _ in range(2))
    assert one == two


def test_a_partition_is_in_one_queue_or_on_the_move():
    pipeline = Pipeline(pressed_stage(), our_hybrid())
    for _ in range(400):
        pipeline.tick()
        disk = pipeline.sites.disk
        queued = [p for q in disk.queues for p in (*q.in_memory, *q.on_disk)]
        assert len(queued) == len(set(queued))
        assert set(np.flatnonzero(disk.on_disk)) == {p for q in disk.queues for p in q.on_disk}
        assert (disk.spooled >= 0).all()
        assert (pipeline.exchange.under_way >= 0).all()


def test_the_skew_buffer_never_holds_much_more_than_its_capacity():
    pipeline = Pipeline(Stage(small_cluster(busy_process([0]), sites=8), uniform(64), buffer_rows=256))
    for _ in range(200):
        pipeline.tick()
        assert pipeline.exchange.waiting.sum() <= 8 * 256 * 1.25


def test_one_slow_site_holds_all_back_once_the_buffer_is_full():
    stage = Stage(small_cluster(busy_process([0]), sites=8), uniform(64), buffer_rows=64)
    trace = Pipeline(stage).run(3.0)
    assert trace.throughput[-1] == pytest.approx(0.43 * 8 / 45e-6, rel=0.08)


def test_producers_go_on_until_the_rest_fills_the_buffer():
    exchange = Exchange(uniform(4), buffer=SkewBuffer(100), connection_rows=50, rng=np.random.default_rng(0))
    exchange.flow(np.arange(4), 4, np.zeros(4, np.bool_))
    assert exchange.rows_inside() == exchange.produced
    assert exchange.produced == pytest.approx(300, abs=5), "4 × 50 on the way and 100 in the buffer"


def test_stalled_partitions_get_nothing():
    exchange = Exchange(uniform(4), buffer=SkewBuffer(1000), connection_rows=50, rng=np.random.default_rng(0))
    stalled = np.array([True, False, False, False])
    exchange.flow(np.arange(4), 4, stalled)
    assert exchange.under_way[0] == 0
    assert exchange.waiting[0] > 0


@pytest.mark.parametrize("shares", [uniform(64), self_similar(64, groups=512), zipf(64, keys=500)])
def test_shares_are_probabilities(shares):
    assert shares.sum() == pytest.approx(1.0)
    assert (shares >= 0).all()


def test_where_memory_ends_the_sites_that_lost_theirs_have_one_partition_on_disk_each():
    """Flux, 6.3: room for 8⅓ and 17⅔ partitions, 26 for each two sites: exactly as many as there are."""
    cluster = Cluster(
        sites=4,
        machine=Machine(memory_bytes=17.667 * 2 * MB),
        network=small_cluster(sites=4).network,
        disturbances=memory_pressure([0, 2], memory_bytes=9.333 * 2 * MB),
    )
    stage = Stage(cluster, uniform(52), state_bytes=2 * MB, buffer_rows=512, spills=True, tick_s=0.01)
    trace = Pipeline(stage, published_memory()).run(12.0)
    assert trace.spilled_by_site == (1, 0, 1, 0)
    assert trace.spilled_at_end == 2
    assert trace.last_move_s() < 10


def test_a_throughput_is_reached_before_it_is_steady():
    calm = Pipeline(Stage(small_cluster(sites=4), uniform(16)), None).run(2.0, interval_s=0.5)
    dip = replace(calm, seconds=(1.0, 2.0, 3.0, 4.0, 5.0), throughput=(50.0, 98.0, 90.0, 100.0, 100.0))
    assert dip.reaches(0.97) == 2.0
    assert dip.steady_from(0.97) == 3.0


def test_one_low_second_among_many_does_not_end_a_steady_state():
    calm = Pipeline(Stage(small_cluster(sites=4), uniform(16)), None).run(2.0, interval_s=0.5)
    level = [50.0, 50.0, *[100.0] * 40]
    scattered = [*level[:30], 95.0, *level[31:]]
    for throughput in (level, scattered):
        run = replace(calm, seconds=tuple(range(1, len(level) + 1)), throughput=tuple(throughput))
        assert run.steady_from(0.97, over=5) == 6, "the last five seconds with a low one at the start"
    assert run.steady_from(0.97) == 31, "a single second decides"
