"""Sort orders and combined hashes."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from anabranch.operators.rows.order import by_hash, combine_hashes

INT64 = st.sampled_from((0, 1, -1, 5, 2**63 - 1, -(2**63)))
PAIRS = st.lists(st.tuples(INT64, st.integers(0, 5)), max_size=60)


@given(PAIRS)
def test_rows_are_ordered_by_hash_and_then_by_time(rows: list[tuple[int, int]]) -> None:
    hashes = np.array([h for h, _ in rows], dtype=np.int64)
    times = np.array([t for _, t in rows], dtype=np.int64)
    _, order = by_hash(hashes, times)
    assert order.dtype == np.int32
    assert sorted(order.tolist()) == list(range(len(rows)))
    assert [rows[i] for i in order] == sorted(rows)


@given(PAIRS, st.permutations(range(60)))
def test_rows_of_equal_hash_and_time_are_ordered_by_arrival(
    rows: list[tuple[int, int]], arrival: list[int]
) -> None:
    hashes, times = (np.array([row[i] for row in rows], dtype=np.int64) for i in range(2))
    sequence = np.array(arrival[: len(rows)], dtype=np.int64)
    _, order = by_hash(hashes, times, sequence)
    known = [(*row, n) for row, n in zip(rows, arrival, strict=False)]
    assert [known[i] for i in order] == sorted(known)


@pytest.mark.parametrize("blocks", [1, 3, 40])
def test_sorted_blocks_one_after_the_other_are_merged(blocks: int) -> None:
    rng = np.random.default_rng(blocks)
    rows = np.sort(rng.integers(0, 2**62, 4000))
    hashes = np.concatenate([rows[i::blocks] for i in range(blocks)]) % 2**40
    times = rng.integers(0, 9, len(hashes))
    _, order = by_hash(hashes, times)
    assert order.tolist() == np.lexsort((times, hashes)).tolist()


def test_a_hot_key_with_descending_times_is_ordered() -> None:
    times = np.arange(5000, 0, -1)
    _, order = by_hash(np.full(5000, 7), times)
    assert times[order].tolist() == sorted(times.tolist())


@pytest.mark.parametrize("keys", [2, 50, 4000])
@pytest.mark.parametrize("span", [3, 10**8, 2**62])
def test_runs_of_any_length_are_ordered_by_times_of_any_span(keys: int, span: int) -> None:
    rng = np.random.default_rng(keys)
    hashes = rng.integers(-(2**63), 2**63 - 1, keys)[rng.integers(0, keys, 3000)]
    times = rng.integers(-span, span, 3000)
    assert by_hash(hashes, times)[1].tolist() == np.lexsort((times, hashes)).tolist()


def test_a_combined_hash_tells_keys_and_their_order_apart() -> None:
    rng = np.random.default_rng(1)
    left, right = (rng.integers(-(2**63), 2**63 - 1, 2000) for _ in range(2))
    combined = combine_hashes([left, right])
    assert len(np.unique(combined)) == 2000
    assert not np.intersect1d(combined, combine_hashes([right, left])).size
    assert (combined == combine_hashes([left.copy(), right.copy()])).all()


@pytest.mark.parametrize("key", [0, -1, 2**63 - 1, -(2**63)])
def test_the_hash_of_one_key_is_left_as_it_is(key: int) -> None:
    assert combine_hashes([np.array([key])]).tolist() == [key]


@pytest.mark.parametrize("times", ["reversed", "random", "equal", "far apart"])
@pytest.mark.parametrize("hot", [17, 1500])
def test_a_hot_key_among_many_others_is_ordered(hot: int, times: str) -> None:
    rng = np.random.default_rng(hot)
    hashes = np.append(rng.integers(-(2**63), 2**63 - 1, 1500), np.full(hot, 7))
    hashes = rng.permutation(np.append(hashes, np.full(hot, 9)))
    found = {
        "reversed": np.arange(len(hashes), 0, -1),
        "random": rng.integers(0, 10**9, len(hashes)),
        "equal": rng.integers(0, 2, len(hashes)),
        "far apart": rng.integers(-(2**63), 2**63 - 1, len(hashes)),
    }[times]
    assert by_hash(hashes, found)[1].tolist() == np.lexsort((found, hashes)).tolist()
