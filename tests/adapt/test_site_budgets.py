"""Which sites put rows off: short skews only, and never for long."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from anabranch.adapt.measures.statistics import Statistics
from anabranch.adapt.memory.site_budgets import PATIENCE, RowBudget, SiteRecord, plan_budgets

K = 10_000
SECOND = 100_000
"""Rows that a site of usual speed does in a second."""


@dataclass(slots=True)
class Sites:
    """Sites with one partition each, that do as they are told."""

    speed: Sequence[float]
    capacity: int | str = "auto"
    record: SiteRecord = field(default_factory=SiteRecord)
    budgets: dict[int, RowBudget] = field(default_factory=dict)
    waiting: np.ndarray = field(init=False)

    def __post_init__(self) -> None:
        self.waiting = np.zeros(len(self.speed), np.int64)

    def batch(self, arrived: Sequence[int]) -> list[int]:
        """Rows that the sites take of a batch."""
        here, demand = np.arange(len(self.speed)), self.waiting + arrived
        taken = demand.copy()
        for site, budget in self.budgets.items():
            taken[site] = min(demand[site], max(budget.rows, demand[site] - budget.waiting))
        self.waiting = demand - taken
        busy = taken / SECOND / np.array(self.speed)
        self.budgets, self.record = plan_budgets(
            Statistics.of_batch(busy, taken, pending_rows=self.waiting),
            np.array(arrived),
            ran_at=here,
            next_at=here,
            record=self.record,
            capacity=self.capacity,  # type: ignore[arg-type]
        )
        return [int(rows) for rows in taken]


USUAL = (1.0, 1.0, 1.0, 1.0)
CASES = {
    "a uniform load is left alone": (USUAL, [[K] * 4] * 4, [K] * 4),
    "half as much again is left alone": (USUAL, [[int(1.4 * K), K, K, K]] * 4, [int(1.4 * K)] * 4),
    "a burst of two batches is spread over those after it": (
        USUAL,
        [[K, K, K, K], [6 * K, K, K, K], [6 * K, K, K, K], [K, K, K, K], [K, K, K, K], [K, K, K, K]],
        [K, 6 * K, 33_750, 33_750, 12_500, K],
    ),
    "a burst of one batch is over before it is known": (
        USUAL,
        [[K, K, K, K], [4 * K, K, K, K], [K, K, K, K]],
        [K, 4 * K, K],
    ),
    "a site that stays crowded is given up, once and for all": (
        USUAL,
        [[3 * K, K, K, K]] * 8,
        [3 * K, 22_500, 22_500, 22_500, 52_500, 3 * K, 3 * K, 3 * K],
    ),
    "a site that is slow for two batches leaves rows to the next ones": (
        (0.2, 1.0, 1.0, 1.0),
        [[K, K, K, K]] * 4,
        [K, K, 6_000, 6_450],
    ),
    "a load that grows everywhere makes nobody wait": (USUAL, [[K] * 4, [9 * K] * 4, [K] * 4], [K, 9 * K, K]),
    "a few milliseconds are not worth waiting for": (USUAL, [[3_000, 1, 1, 1]] * 3, [3_000] * 3),
    "one site holds up nobody": ((1.0,), [[K], [5 * K], [5 * K]], [K, 5 * K, 5 * K]),
    "two sites differ by three before one waits": ((1.0, 1.0), [[29 * K // 10, K]] * 3, [29 * K // 10] * 3),
}


@pytest.mark.parametrize(("speed", "arrived", "taken"), CASES.values(), ids=CASES.keys())
def test_the_first_site_takes(speed: Sequence[float], arrived: list[list[int]], taken: list[int]) -> None:
    sites = Sites(speed)
    assert [sites.batch(rows)[0] for rows in arrived] == taken


def test_a_crowd_with_short_breaks_counts_as_one_that_lasts() -> None:
    sites, crowd, calm = Sites(USUAL), [3 * K, K, K, K], [K, K, K, K]
    for rows in (crowd, crowd, crowd, crowd, crowd, calm, crowd):
        sites.batch(rows)
    assert sites.budgets == {}
    for rows in (calm, calm, calm, calm, calm, crowd):
        sites.batch(rows)
    assert 0 in sites.budgets


def test_a_move_that_relieves_the_site_leaves_nothing_to_put_off() -> None:
    rows, here = np.array([2 * K, 2 * K, K, K]), np.array([0, 0, 1, 2])
    batch = Statistics.of_batch([0.4, 0.1, 0.1], rows)
    for moved, named in ((here, [0]), (np.array([0, 1, 1, 2]), [])):
        budgets, _ = plan_budgets(
            batch, rows, ran_at=here, next_at=moved, record=SiteRecord(), capacity="auto"
        )
        assert list(budgets) == named


def test_a_site_that_stumbles_once_puts_nothing_off() -> None:
    sites = Sites([1.0] * 4)
    for speed in (1.0, 0.1, 1.0, 1.0):
        sites.speed = [speed, 1.0, 1.0, 1.0]
        sites.batch([K] * 4)
        assert sites.budgets == {}


def test_the_buffer_is_shared_by_those_that_need_it() -> None:
    sites = Sites(USUAL * 2, capacity=5_000)
    sites.batch([5 * K, 5 * K] + [K] * 6)
    assert {site: b.waiting for site, b in sites.budgets.items()} == {0: 2_500, 1: 2_500}
    none = Sites(USUAL * 2, capacity=0)
    none.batch([5 * K] + [K] * 7)
    assert none.budgets == {}


def test_what_is_known_of_overloaded_sites_survives_a_restart() -> None:
    known = SiteRecord({3: 2, 7: PATIENCE + 1}, (1.0, 0.5))
    assert SiteRecord.from_json(known.to_json()) == known


@given(
    st.lists(st.lists(st.integers(0, 40_000), min_size=3, max_size=3), min_size=1, max_size=30),
    st.sampled_from(["auto", 0, 7_000]),
)
def test_whatever_comes_the_buffer_is_bounded_and_empty_soon_after(
    arrived: list[list[int]], capacity: int | str
) -> None:
    sites = Sites((1.0, 1.0, 1.0), capacity)
    came = taken = np.zeros(3, np.int64)
    for rows in arrived:
        room = sum(b.waiting for b in sites.budgets.values())
        taken = taken + sites.batch(rows)
        came = came + rows
        assert sites.waiting.sum() <= room
        assert (came == taken + sites.waiting).all()
    for _ in range(2):  # nothing new: the first step keeps to the budgets of the last batch
        taken = taken + sites.batch([0, 0, 0])
    assert (came == taken).all()


def test_what_waits_may_enter_at_once_while_nothing_comes() -> None:
    sites = Sites(USUAL, capacity=400_000)
    for rows in ([K] * 4, [30 * K, K, K, K], [30 * K, K, K, K], [0] * 4):
        sites.batch(rows)
    assert sites.waiting[0] > 0
    assert sites.budgets == {}
    sites.batch([0] * 4)
    assert sites.waiting.sum() == 0
