"""The probe kernel against a double loop."""

from __future__ import annotations

import time
from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from anabranch.operators.join.match import Side, match
from anabranch.operators.rows.order import by_hash
from anabranch.plan.logical import UNBOUNDED_US

Row = tuple[int, int, int]
"""Hash, time, deadline without the window."""

HASHES = st.sampled_from((0, 1, 2, -1, 2**63 - 1, -(2**63)))
WINDOWS = st.sampled_from((0, 1, 3, 100, UNBOUNDED_US))


@st.composite
def sides(draw: st.DrawFn) -> tuple[Side, list[Row], int]:
    """A side, the rows behind it, and its window."""
    leaf = draw(st.booleans())
    drawn = draw(st.lists(st.tuples(HASHES, st.integers(0, 12), st.integers(0, 6)), max_size=40))
    rows = [(h, t, t if leaf else t + d) for h, t, d in drawn]
    window = draw(WINDOWS) if leaf else 0
    return side_of(rows, window, leaf=leaf, indexed=draw(st.booleans())), rows, window


def side_of(rows: list[Row], window: int, *, leaf: bool = True, indexed: bool = True) -> Side:
    if not indexed:  # rows lie in the order of their hash, as in a block; `rows` is brought into it too
        rows.sort()
    hashes, times, deadlines = (np.array([r[i] for r in rows], dtype=np.int64) for i in range(3))
    longest = 0 if leaf else max((d - t for _, t, d in rows), default=0)
    if not indexed:
        return Side(hashes, None, times, deadlines, window, longest)
    in_order, order = by_hash(hashes, times)
    return Side(in_order, order, times, deadlines, window, longest)


def brute_force(new: list[Row], new_window: int, old: list[Row], old_window: int) -> Counter[tuple[int, int]]:
    return Counter(
        (i, j)
        for i, (h, t, d) in enumerate(new)
        for j, (h2, t2, d2) in enumerate(old)
        if h == h2 and max(t, t2) <= min(d + new_window, d2 + old_window)
    )


def matched(new: Side, old: Side, chunk: int) -> Counter[tuple[int, int]]:
    found: Counter[tuple[int, int]] = Counter()
    for left, right in match(new, old, chunk=chunk):
        assert 0 < len(left) == len(right) <= chunk
        found.update(zip(left.tolist(), right.tolist(), strict=True))
    return found


@given(sides(), sides(), st.sampled_from((1, 2, 3, 7, 1 << 10)))
def test_it_finds_what_a_double_loop_finds(
    new: tuple[Side, list[Row], int], old: tuple[Side, list[Row], int], chunk: int
) -> None:
    expected = brute_force(new[1], new[2], old[1], old[2])
    assert matched(new[0], old[0], chunk) == expected


@pytest.mark.parametrize("chunk", [1, 2, 3, 399, 400, 401, 1 << 20])
def test_a_hot_key_resumes_in_the_middle_of_its_run(chunk: int) -> None:
    rows = [(5, t, t) for t in range(40)]
    new, old = side_of(list(rows), 9), side_of(list(rows), 9, indexed=False)
    assert matched(new, old, chunk) == brute_force(rows, 9, rows, 9)


def test_a_chunk_that_is_exactly_full_does_not_lose_or_repeat_the_next_key() -> None:
    new = [(0, 0, 0), (1, 0, 0), (2, 0, 0)]
    old = [(0, 0, 0), (0, 0, 0), (1, 0, 0), (2, 0, 0), (2, 0, 0)]
    assert matched(side_of(new, 0), side_of(old, 0), 2) == brute_force(new, 0, old, 0)


@pytest.mark.parametrize("key", [2**63 - 1, -(2**63)])
def test_a_hot_key_with_an_extreme_hash_is_entered_at_its_first_live_row(key: int) -> None:
    old = [(key, t, t) for t in range(50)]
    new = [(key, 60, 60)]
    assert matched(side_of(new, 0), side_of(old, 15), 4) == brute_force(new, 0, old, 15)
    assert len(brute_force(new, 0, old, 15)) == 5


def test_an_unbounded_window_reaches_the_first_row_from_the_last() -> None:
    new, old = [(1, 2**53, 2**53)], [(1, 0, 0)] * 20
    assert sum(matched(side_of(new, 0), side_of(old, UNBOUNDED_US), 3).values()) == 20
    assert not matched(side_of(new, 0), side_of(old, 2**52), 3)


@pytest.mark.parametrize("empty", ["new", "old"])
def test_an_empty_side_matches_nothing(empty: str) -> None:
    some, none = side_of([(1, 1, 1)], 5), side_of([], 5)
    assert not list(match(none, some) if empty == "new" else match(some, none))


@pytest.mark.parametrize("chunk", [1, 7, 500, 1 << 20])
@pytest.mark.parametrize("indexed", [False, True])
def test_rows_of_a_hot_key_that_live_long_and_short_are_found(chunk: int, indexed: bool) -> None:
    """Between rows that live long, many are past their deadline, and are passed by."""
    rng = np.random.default_rng(chunk)
    old = [(5, t, t + (90 if rng.random() < 0.05 else int(rng.integers(0, 3)))) for t in range(150)]
    new = [(5, int(t), int(t + rng.integers(0, 30))) for t in np.sort(rng.integers(0, 200, 60))]
    sides = side_of(new, 0, leaf=False), side_of(old, 0, leaf=False, indexed=indexed)
    assert matched(*sides, chunk) == brute_force(new, 0, old, 0)


def test_a_row_that_lives_long_does_not_make_those_behind_it_be_passed_by_again_and_again() -> None:
    def seconds(rows: int) -> float:
        times = np.arange(rows)
        deadlines = times.copy()
        deadlines[0] = rows
        side = Side(np.full(rows, 5), None, times, deadlines, 0, rows)
        spent = []
        for _ in range(5):
            started = time.process_time()
            assert sum(len(left) for left, _ in match(side, side)) == 3 * rows - 2
            spent.append(time.process_time() - started)
        return min(spent)

    seconds(100)
    assert seconds(80_000) < 20 * seconds(10_000)
