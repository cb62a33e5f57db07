"""Aggregates over ranges by sliding and by tree, beside NumPy on each range."""

from __future__ import annotations

from collections.abc import Iterator
from unittest import mock

import numpy as np
import pytest

from anabranch.operators.group.folds import range_fold
from anabranch.operators.group.folds.range_fold import minimum_of, moments_of, sum_of
from anabranch.operators.group.folds.sliding_fold import NOTHING, steps
from anabranch.operators.group.folds.window_bounds import Ranges, Runs
from anabranch.operators.rows.arrays import Int64s

ROWS = 400
SLIDING, BY_TREE = 10**9, 0


@pytest.fixture(params=[SLIDING, BY_TREE], ids=["sliding", "by tree"], autouse=True)
def _way(request: pytest.FixtureRequest) -> Iterator[None]:
    with mock.patch.object(range_fold, "SLIDE", request.param):
        yield


def _ranges(order: str) -> tuple[Runs, Ranges]:
    """Ranges in two runs, some empty, some to the end of their run."""
    rng = np.random.default_rng(len(order))
    cut = ROWS // 3
    starts = rng.integers(0, ROWS, 200)
    starts = np.sort(starts) if order == "forward" else starts
    run_end = np.where(starts < cut, cut, ROWS)
    lengths = np.full(200, 40) if order == "forward" else rng.integers(0, 60, 200)
    ends = np.minimum(starts + lengths, run_end)
    return Runs(np.array([3, 9]), np.array([0, cut, ROWS])), Ranges(starts, ends, ends == run_end)


def _each(ranges: Ranges) -> list[slice]:
    return [slice(s, e) for s, e in zip(ranges.starts.tolist(), ranges.ends.tolist(), strict=True)]


@pytest.mark.parametrize("order", ["forward", "in no order"])
def test_the_least_code_of_each_range_is_found(order: str) -> None:
    runs, ranges = _ranges(order)
    codes: Int64s = np.random.default_rng(1).integers(-(2**62), 2**62, ROWS)
    found = np.full(200, NOTHING)
    minimum_of(codes, runs).fold(ranges, found)
    assert found.tolist() == [codes[at].min(initial=NOTHING) for at in _each(ranges)]


@pytest.mark.parametrize("order", ["forward", "in no order"])
def test_the_sum_of_each_range_knows_nothing_of_numbers_outside(order: str) -> None:
    runs, ranges = _ranges(order)
    values = np.random.default_rng(2).random(ROWS)
    values[[50, 300]] = np.inf, np.nan
    found = np.ones(200)
    sum_of(values, runs).fold(ranges, found)
    np.testing.assert_allclose(found, [1 + values[at].sum() for at in _each(ranges)])


@pytest.mark.parametrize("order", ["forward", "in no order"])
def test_the_moments_of_each_range_are_those_of_its_known_values(order: str) -> None:
    runs, ranges = _ranges(order)
    rng = np.random.default_rng(3)
    values, known = rng.random(ROWS) + 1e6, rng.random(ROWS) < 0.8
    found = np.zeros((200, 3))
    moments_of(values, known, runs).fold(ranges, found)
    for row, at in zip(found, _each(ranges), strict=True):
        mine = values[at][known[at]]
        assert row[0] == len(mine)
        if len(mine):
            np.testing.assert_allclose(row[1:], [mine.mean(), mine.var() * len(mine)], atol=1e-9)


def test_ranges_that_slide_pass_each_row_once_and_others_again_and_again() -> None:
    starts = np.arange(1000)
    inner = np.zeros(1000, dtype=bool)
    assert steps(starts, starts + 500, inner)[0] <= 2 * 1500
    assert steps(starts[::-1].copy(), starts[::-1] + 500, inner)[0] == 500 * 1000
