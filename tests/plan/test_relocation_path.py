"""How partitions had better move: the busiest site decides."""

from __future__ import annotations

import pytest

from anabranch.plan.cost.estimates import JoinStatistics
from anabranch.plan.cost.migration_cost import Strategy
from anabranch.plan.cost.plan_cost import UnitCosts
from anabranch.plan.cost.relocation_path import RelocationPath
from anabranch.plan.tree import parse_plan
from tests.plan.statistics import graph, statistics

THREE = graph("abc", ["abc"])
COSTS = UnitCosts()
AB_C, BC_A = parse_plan("((a b) c)"), parse_plan("((b c) a)")


def path(known: JoinStatistics, receivers: int, *, share: float = 0.8, copy_row_s: float = 0.0):
    """A sender gives a share of its rows to some sites with a tenth of its load, in equal parts."""
    found = RelocationPath()
    quiet = statistics(THREE, rate=4.0)
    found.add(
        {0: BC_A, **dict.fromkeys(range(1, receivers + 1), AB_C)},
        {(0, site): share / receivers for site in range(1, receivers + 1)},
        graph=THREE,
        known={0: known, **dict.fromkeys(range(1, receivers + 1), quiet)},
        costs=COSTS,
        lateness_s=0.0,
        copy_row_s=copy_row_s,
    )
    return found


@pytest.mark.parametrize("window_s", [15.0, 60.0])
@pytest.mark.parametrize("rate", [30.0, 50.0])
def test_moving_state_is_chosen_at_steady_rates(rate: float, window_s: float) -> None:
    assert path(statistics(THREE, rate=rate, window_s=window_s), 7).cheaper is Strategy.MOVING_STATE


def test_what_receivers_compute_side_by_side_is_waited_for_once() -> None:
    known = statistics(THREE, rate=40.0)
    one, many = path(known, 1), path(known, 8)
    moving = Strategy.MOVING_STATE
    usual = [max(p.usual.values()) for p in (one, many)]
    assert one.seconds[moving] - usual[0] == pytest.approx(8 * (many.seconds[moving] - usual[1]))


def test_what_the_sender_drains_counts_in_full_however_many_receive() -> None:
    known = statistics(THREE, rate=40.0)
    assert path(known, 1).beside[0] == pytest.approx(path(known, 8).beside[0])


def test_dear_copies_of_large_states_make_parallel_track_win() -> None:
    fallen = statistics(
        THREE, rates={"b": 5.0, "c": 5.0}, window_s=60.0, rows=dict.fromkeys("abc", 6000.0), selectivity=0.001
    )
    assert path(fallen, 7, copy_row_s=1e-3).cheaper is Strategy.PARALLEL_TRACK


def test_where_nothing_is_known_state_moves() -> None:
    assert RelocationPath().cheaper is Strategy.MOVING_STATE
