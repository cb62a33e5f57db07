"""Our load policy: few moves, all at once, close to a perfect packing."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from anabranch.adapt.balance.best_fit_policy import BestFitPolicy
from anabranch.adapt.balance.packing import fluid_level, longest_first
from anabranch.adapt.balance.policy import Thresholds
from anabranch.adapt.balance.proposal import Move
from anabranch.adapt.measures.statistics import sum_by_site
from anabranch.sim.workload import zipf
from tests.adapt.batches import packing_bound
from tests.adapt.views import moves_of, view_of

KEEN = Thresholds(1.1, 0.9)

CASES = {
    "one move is enough": (view_of([[30, 30, 30], [30]]), [Move(0, 0, 1)]),
    "a balanced cluster is left alone": (view_of([[10, 11], [12, 10]]), []),
    "a partition too big to move is relieved of its neighbours": (
        view_of([[100, 5, 5], [5], [5]]),
        [Move(1, 0, 1), Move(2, 0, 2)],
    ),
    "a slow site gives, though it has no more rows": (
        view_of([[10, 10, 10, 10], [10, 10, 10, 10]], slowness=[2.0, 1.0]),
        [Move(0, 0, 1)],
    ),
    "nothing to do without work": (view_of([[0, 0], [0]]), []),
    "one site": (view_of([[5, 5]]), []),
}


@pytest.mark.parametrize(("view", "moves"), CASES.values(), ids=CASES.keys())
def test_the_best_fit_policy_moves(view, moves):
    assert moves_of(BestFitPolicy().propose(view, KEEN)) == moves


clusters = st.lists(st.lists(st.integers(0, 1000), min_size=1, max_size=12), min_size=2, max_size=8)


@given(clusters)
def test_the_busiest_site_is_never_worse_off(sites):
    view = view_of(sites)
    moves = moves_of(BestFitPolicy().propose(view, KEEN))
    assert view.after(moves).max() <= view.load_of_sites().max() * (1 + 1e-9)
    assert len({m.partition for m in moves}) == len(moves)


@given(clusters, st.lists(st.floats(0.5, 4.0), min_size=8, max_size=8))
def test_no_receiver_ends_above_the_site_it_relieved(sites, slowness):
    view = view_of(sites, slowness=slowness[: len(sites)])
    for p in BestFitPolicy().propose(view, KEEN):
        assert p.expected >= 0
    top = view.load_of_sites().max()
    assert view.after(moves_of(BestFitPolicy().propose(view, KEEN))).max() <= top * (1 + 1e-9)


@given(clusters)
def test_memory_is_never_exceeded(sites):
    state = [10 for site in sites for _ in site]
    memory = [10.0 * (len(site) + 1) for site in sites]
    view = view_of(sites, state_bytes=state, memory=memory)
    left = view.excess_of_sites()
    for m in moves_of(BestFitPolicy(within_memory=True).propose(view, KEEN)):
        left[m.target] -= 10
        left[m.source] += 10
        assert left[m.target] >= 0


def test_sites_are_not_measured_by_a_level_that_only_a_site_without_memory_could_bring_about():
    """Site 3 has room for 60 of 100 partitions: the others keep 1.13 of an even spread, for good."""
    sites = [[1] * 114, [1] * 113, [1] * 113, [1] * 60]
    state = [10] * 400
    full = view_of(sites, state_bytes=state, memory=[2000.0, 2000.0, 2000.0, 605.0])
    assert BestFitPolicy(within_memory=True).propose(full, KEEN) == ()
    roomy = view_of(sites, state_bytes=state, memory=[2000.0, 2000.0, 2000.0, 1000.0])
    moves = moves_of(BestFitPolicy(within_memory=True).propose(roomy, KEEN))
    assert {m.target for m in moves} == {3}
    assert len(moves) > 20


def test_the_limit_on_moves_holds():
    view = view_of([[1] * 100, [1]])
    assert len(BestFitPolicy(max_moves=7).propose(view, KEEN)) == 7


@pytest.mark.parametrize("seed", range(5))
def test_a_zipf_load_on_256_partitions_is_within_a_tenth_of_perfect_after_one_round(seed):
    work = zipf(256, keys=20_000, seed=seed)
    view = view_of(np.split((work * 1e6).astype(int), 8))
    after = view.after(moves_of(BestFitPolicy().propose(view, KEEN)))
    assert after.max() <= 1.1 * packing_bound(view.work_s, view.slowness)


@given(
    st.lists(st.integers(1, 100), min_size=1, max_size=40),
    st.lists(st.floats(0.5, 4), min_size=1, max_size=6),
)
def test_the_yardsticks_are_in_order(work, slowness):
    work, slow = np.array(work, float), np.array(slowness)
    packed = longest_first(work, slow)
    load = slow * sum_by_site(work, packed, len(slow))
    assert fluid_level(work, slow) <= packing_bound(work, slow) <= load.max() * (1 + 1e-9)
