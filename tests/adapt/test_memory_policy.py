"""Memory and hybrid policies."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from anabranch.adapt.balance.hybrid_policy import HybridPolicy
from anabranch.adapt.balance.policy import Thresholds
from anabranch.adapt.balance.proposal import Move, PolicyName
from anabranch.adapt.memory.memory_policy import MemoryPolicy
from tests.adapt.views import moves_of, view_of

PUBLISHED = Thresholds(1.2, 0.9)

CASES = {
    "state that does not fit goes where memory is left": (
        view_of([[1, 1, 1], [1]], state_bytes=[40, 40, 40, 10], memory=[100, 100]),
        [Move(0, 0, 1)],
    ),
    "in-memory partitions before larger ones on disk": (
        view_of([[1, 1, 1], [1]], state_bytes=[50, 40, 30, 10], memory=[100, 100], on_disk=[0]),
        [Move(1, 0, 1)],
    ),
    "both are short: the shortage is evened out": (
        view_of([[1, 1, 1], [1, 1, 1]], state_bytes=[10] * 6, memory=[5, 28]),
        [Move(0, 0, 1)],
    ),
    "one does not fit, and would not fit there either: the disk would only be another": (
        view_of([[1] * 4, [1] * 4], state_bytes=[10] * 8, memory=[32, 48]),
        [],
    ),
    "two do not fit, and one would not there: the disks are evened out": (
        view_of([[1] * 5, [1] * 4], state_bytes=[10] * 9, memory=[32, 48]),
        [Move(0, 0, 1)],
    ),
    "one does not fit, and a smaller one has room there": (
        view_of([[1] * 4, [1] * 4], state_bytes=[10, 10, 10, 6, 10, 10, 10, 10], memory=[28, 48]),
        [Move(3, 0, 1)],
    ),
    "everything fits and is about as full": (
        view_of([[1, 1], [1, 1]], state_bytes=[10] * 4, memory=[40, 44]),
        [],
    ),
    "everything fits, but one is much fuller": (
        view_of([[1, 1, 1], [1]], state_bytes=[10, 10, 10, 5], memory=[40, 80]),
        [Move(0, 0, 1)],
    ),
    "too big to narrow the gap": (view_of([[1], [1]], state_bytes=[90, 10], memory=[80, 60]), []),
    "without budgets": (view_of([[1, 1, 1], [1]]), []),
}


@pytest.mark.parametrize(("view", "moves"), CASES.values(), ids=CASES.keys())
def test_the_memory_policy_moves(view, moves):
    assert moves_of(MemoryPolicy().propose(view, PUBLISHED)) == moves


def test_with_several_passes_it_stops_when_the_state_fits():
    view = view_of([[1] * 6, [1]], state_bytes=[10] * 7, memory=[40, 100])
    assert len(MemoryPolicy(passes=16, only_when_short=True).propose(view, PUBLISHED)) == 2


def test_with_several_passes_a_donor_gives_to_several_receivers():
    view = view_of([[1] * 6, [1], [1], [1]], state_bytes=[10] * 9, memory=[20, 100, 100, 100])
    moves = moves_of(MemoryPolicy(passes=16, only_when_short=True).propose(view, PUBLISHED))
    assert len({m.partition for m in moves}) == len(moves) == 4
    assert {m.target for m in moves} == {1, 2, 3}


def test_without_shortage_our_variant_leaves_memory_alone():
    view = view_of([[1, 1, 1], [1]], state_bytes=[10, 10, 10, 5], memory=[40, 80])
    assert MemoryPolicy(only_when_short=True).propose(view, PUBLISHED) == ()


def test_hybrid_thinks_of_memory_while_anything_is_spilled_and_of_load_afterwards():
    rows, state = [[50, 30, 20], [10]], [40, 40, 40, 10]
    spilled = view_of(rows, state_bytes=state, memory=[100, 100], on_disk=[2])
    roomy = view_of(rows, state_bytes=state, memory=[200, 200])
    hybrid = HybridPolicy.as_published()
    assert {p.policy for p in hybrid.propose(spilled, PUBLISHED)} == {PolicyName.MEMORY}
    assert {p.policy for p in hybrid.propose(roomy, PUBLISHED)} == {PolicyName.LOAD}


sizes = st.lists(st.lists(st.integers(0, 50), min_size=1, max_size=8), min_size=2, max_size=6)


@given(sizes, st.lists(st.integers(10, 400), min_size=6, max_size=6))
def test_every_pair_gets_more_alike_and_no_partition_moves_twice(sites, budgets):
    state = [s for site in sites for s in site]
    view = view_of(sites, state_bytes=state, memory=budgets[: len(sites)])
    excess = view.excess_of_sites()
    moves = moves_of(MemoryPolicy().propose(view, PUBLISHED))
    for m in moves:
        gap, size = excess[m.target] - excess[m.source], view.state_bytes[m.partition]
        assert abs(gap - 2 * size) < gap
    assert len({m.partition for m in moves}) == len(moves)
