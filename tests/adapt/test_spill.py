"""Which partitions of a site are in memory."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from anabranch.adapt.memory.spill import SiteSpill, SpillKind, SpillStep, plan_spill

SIZES = [10] * 8


def steps_of(queues, *, budget, now=0.0, gap=1.0):
    return [(str(s.kind), s.partition) for s in plan_spill(queues, SIZES, budget=budget, now=now, gap=gap)[1]]


CASES = {
    "what fits stays": (SiteSpill((0, 1, 2)), 30, []),
    "the oldest go first": (SiteSpill((0, 1, 2)), 15, [("spill", 0), ("spill", 1)]),
    "a raised budget brings partitions back": (
        SiteSpill((0,), (1, 2)),
        30,
        [("activate", 1), ("activate", 2)],
    ),
    "a full memory rotates": (SiteSpill((0, 1), (2, 3)), 20, [("spill", 0), ("activate", 2)]),
    "but not before the gap is over": (SiteSpill((0, 1), (2, 3), activated_at=-0.5), 20, []),
    "a partition larger than the budget comes in alone": (
        SiteSpill((0,), (1,)),
        5,
        [("spill", 0), ("activate", 1)],
    ),
}


@pytest.mark.parametrize(("queues", "budget", "steps"), CASES.values(), ids=CASES.keys())
def test_a_site_spills(queues, budget, steps):
    assert steps_of(queues, budget=budget) == steps


@given(st.integers(10, 100), st.integers(1, 8))
def test_every_partition_gets_its_turn(budget, partitions):
    queues, active = SiteSpill(tuple(range(partitions))), set()
    for now in range(3 * partitions):
        queues, _ = plan_spill(queues, SIZES, budget=budget, now=now, gap=1)
        active |= set(queues.in_memory)
        assert len(queues.in_memory) * 10 <= budget
    assert active == set(range(partitions))


@given(
    st.lists(st.integers(5, 120), min_size=1, max_size=30), st.lists(st.sets(st.integers(0, 7)), max_size=30)
)
def test_budgets_and_owners_may_change_at_any_time_and_nothing_is_lost(budgets, owners):
    queues = SiteSpill(tuple(range(8)))
    for now, budget in enumerate(budgets):
        if now < len(owners):
            queues = queues.owning(sorted(owners[now]))
        known = {*queues.in_memory, *queues.on_disk}
        queues, steps = plan_spill(queues, SIZES, budget=budget, now=now, gap=2)
        assert {*queues.in_memory, *queues.on_disk} == known
        assert len(queues.in_memory) * 10 <= max(budget, 10)
        assert SiteSpill.from_json(queues.to_json()) == queues
        assert len(steps) == len({(s.kind, s.partition) for s in steps})


def test_a_driver_with_a_slow_disk_gets_one_step_at_a_time():
    queues, steps = plan_spill(SiteSpill((0, 1, 2)), SIZES, budget=5, now=0, gap=1, most=1)
    assert steps == (SpillStep(SpillKind.SPILL, 0),)
    assert queues.on_disk == (0,)
    assert np.isneginf(queues.activated_at)
