"""What rounds leave behind in the memory."""

from __future__ import annotations

import numpy as np
import pytest

from anabranch.adapt.balance.round_view import RoundView
from anabranch.adapt.measures.rolling import Memory, RollingStatistics
from anabranch.adapt.measures.statistics import Flags, Floats, Statistics

SITE_OF = np.repeat(np.arange(4), 2)
ROWS = np.full(8, 10_000)
EVEN = np.full(4, 0.5)
FOUR_TIMES = np.array([2.0, 0.5, 0.5, 0.5])
"""Busy seconds when site 0 needs four times as long as the others."""


def view_after(rounds: list[tuple[Floats, tuple[int, ...]]]) -> RoundView:
    """The memory after rounds of these busy seconds, with these partitions on disk at their end."""
    rolling = RollingStatistics(Memory(fit_costs=False))
    for busy, spilled in rounds:
        rolling.open_round()
        rolling.add(Statistics.of_batch(busy, ROWS, on_disk=_flags(spilled), length_s=2.0), SITE_OF)
        rolling.close_round()
    return rolling.view(SITE_OF, pinned=_flags(()), barred={})


def _flags(partitions: tuple[int, ...]) -> Flags:
    flags = np.zeros(len(ROWS), np.bool_)
    flags[list(partitions)] = True
    return flags


def slowness_of(view: RoundView) -> Floats:
    return view.slowness / np.median(view.slowness)


def test_a_site_that_takes_four_times_as_long_is_slow():
    assert slowness_of(view_after([(FOUR_TIMES, ())] * 4))[0] > 3


def test_a_site_is_not_slow_for_being_busy_with_its_disk():
    assert slowness_of(view_after([(FOUR_TIMES, (0,))] * 4)) == pytest.approx(1)


def test_nor_in_the_round_in_which_the_last_partition_came_back():
    assert slowness_of(view_after([(FOUR_TIMES, (0,)), (FOUR_TIMES, ())])) == pytest.approx(1)


def test_what_it_does_afterwards_counts():
    rounds = [(EVEN, (0,)), (EVEN, (0,)), *[(FOUR_TIMES, ())] * 5]
    assert slowness_of(view_after(rounds))[0] > 3
