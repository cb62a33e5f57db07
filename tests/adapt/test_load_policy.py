"""Flux's load policy, on tables of cases and on anything Hypothesis finds."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from anabranch.adapt.balance.load_policy import LoadPolicy
from anabranch.adapt.balance.policy import Thresholds
from anabranch.adapt.balance.proposal import Move
from tests.adapt.views import moves_of, view_of

PUBLISHED = Thresholds(1.2, 0.9)

CASES = {
    "the biggest partition that helps, not one that would overload the receiver": (
        view_of([[90, 20, 10], [40]]),
        [Move(1, 0, 1)],
    ),
    "figure 6: ends are paired, and a partition that would overshoot stays": (
        view_of([[40, 30, 30], [60, 15], [30, 20], [20, 10]], utilisation=[1.0, 0.75, 0.5, 0.3]),
        [Move(0, 0, 3), Move(4, 1, 2)],
    ),
    "balanced sites are left alone": (view_of([[10, 10], [10, 10]]), []),
    "below the imbalance threshold": (view_of([[10, 9], [10, 6]], utilisation=[0.95, 0.85]), []),
    "a busy receiver gets nothing": (view_of([[60, 60], [50, 50]], utilisation=[1.0, 0.91]), []),
    "one partition has it all, so nothing helps": (view_of([[100], [1]]), []),
    "an empty receiver is judged by the donor's pace": (view_of([[50, 50], []]), [Move(0, 0, 1)]),
    "a partition with a running protocol stays": (view_of([[90, 20, 10], [40]], pinned=[1]), [Move(2, 0, 1)]),
    "a partition does not return to a site it has just left": (
        view_of([[90, 20, 10], [40]], barred={1: frozenset({1})}),
        [Move(2, 0, 1)],
    ),
}


@pytest.mark.parametrize(("view", "moves"), CASES.values(), ids=CASES.keys())
def test_the_load_policy_moves(view, moves):
    assert moves_of(LoadPolicy().propose(view, PUBLISHED)) == moves


def test_within_memory_a_partition_goes_only_where_there_is_room():
    view = view_of([[50, 30, 20], [10]], state_bytes=[50, 30, 20, 10], memory=[200, 35])
    assert moves_of(LoadPolicy(within_memory=True).propose(view, PUBLISHED)) == [Move(2, 0, 1)]


clusters = st.lists(st.lists(st.integers(0, 1000), min_size=1, max_size=8), min_size=2, max_size=8)


@given(clusters)
def test_at_most_one_move_per_pair_and_no_site_twice(sites):
    proposals = LoadPolicy().propose(view_of(sites), PUBLISHED)
    touched = [s for p in proposals for s in (p.move.source, p.move.target)]
    assert len(proposals) <= len(sites) // 2
    assert len(touched) == len(set(touched))


@given(clusters)
def test_no_receiver_is_overloaded_and_every_pair_becomes_more_alike(sites):
    view = view_of(sites)
    before, after = view.load_of_sites(), view.after(moves_of(LoadPolicy().propose(view, PUBLISHED)))
    for p in LoadPolicy().propose(view, PUBLISHED):
        donor, receiver = p.move.source, p.move.target
        assert after[receiver] <= before.max() * (1 + 1e-9)
        assert abs(after[donor] - after[receiver]) < before[donor] - before[receiver]


@given(clusters)
def test_the_same_view_gives_the_same_proposals(sites):
    assert LoadPolicy().propose(view_of(sites), PUBLISHED) == LoadPolicy().propose(view_of(sites), PUBLISHED)


@given(clusters, st.floats(1.0, 3.0), st.floats(0.0, 1.0))
def test_thresholds_only_ever_forbid(sites, imbalance, utilisation):
    view = view_of(sites)
    strict = LoadPolicy().propose(view, Thresholds(imbalance, utilisation))
    free = LoadPolicy().propose(view, Thresholds(1.0, 1.0))
    assert strict == free[: len(strict)]
    assert np.all(view.site_of == view_of(sites).site_of)
