"""Values in ascending order with their rows, however they are spread."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from anabranch.operators.rows import sorting
from anabranch.operators.rows.arrays import Int64s
from anabranch.operators.rows.sorting import ascending

LOW, HIGH = -(2**63), 2**63 - 1
Spread = Callable[[np.random.Generator, int], Int64s]
SPREADS: dict[str, Spread] = {
    "all over": lambda rng, n: rng.integers(LOW, HIGH, n),
    "few values": lambda rng, n: rng.integers(0, 5, n),
    "one hot value among others": lambda rng, n: np.where(rng.random(n) < 0.3, 5, rng.integers(LOW, HIGH, n)),
    "at both ends, different in their lowest bits": lambda rng, n: (
        np.array([LOW, HIGH - 3])[rng.integers(0, 2, n)] + rng.integers(0, 4, n)
    ),
    "crowded, and one far away": lambda rng, n: np.append(rng.integers(0, 10**7, n - 1), 2**50),
    "several crowds": lambda rng, n: (rng.integers(0, 10, n) << 31) + rng.permutation(n),
    "sorted blocks one after the other": lambda rng, n: np.concatenate(
        [np.sort(rng.integers(LOW, HIGH, n // 4)) for _ in range(4)]
    ),
    "descending": lambda rng, n: np.sort(rng.integers(LOW, HIGH, n))[::-1].copy(),
}
CROWDED = {
    "at both ends, different in their lowest bits",
    "crowded, and one far away",
    "several crowds",
}


def _check(values: Int64s) -> None:
    found, rows = ascending(values)
    assert rows.dtype == np.int32
    assert rows.tolist() == np.argsort(values, kind="stable").tolist()
    assert found.tolist() == np.sort(values).tolist()


@pytest.mark.parametrize("size", [4, 100, 3000, 40_000])
@pytest.mark.parametrize("spread", SPREADS.values(), ids=SPREADS.keys())
def test_any_spread_of_values_is_sorted(spread: Spread, size: int) -> None:
    _check(spread(np.random.default_rng(size), size))


@given(hnp.arrays(np.int64, st.integers(0, 80), elements=st.sampled_from((0, 1, -1, 5, HIGH, LOW, HIGH - 1))))
def test_values_at_the_ends_of_their_range_are_sorted(values: Int64s) -> None:
    _check(values)


@pytest.mark.parametrize(("name", "spread"), SPREADS.items(), ids=SPREADS.keys())
def test_digits_are_for_crowded_values_only(
    name: str, spread: Spread, monkeypatch: pytest.MonkeyPatch
) -> None:
    by_digits, called = sorting._by_digits, []
    monkeypatch.setattr(sorting, "_by_digits", lambda *given: called.append(1) or by_digits(*given))
    _check(spread(np.random.default_rng(1), 20_000))
    assert bool(called) == (name in CROWDED)


def test_the_values_given_stay_as_they_are() -> None:
    values = SPREADS["several crowds"](np.random.default_rng(3), 5000)
    before = values.copy()
    ascending(values)
    assert (values == before).all()
