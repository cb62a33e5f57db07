"""Prefix sums of integers: the sum of a range is a difference of two of them."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

from anabranch.operators.rows.arrays import Int64s


def prefix_sums(values: Int64s) -> Int64s:
    """Sums of the first 0, 1, 2 … values."""
    sums = np.zeros(len(values) + 1, dtype=np.int64)
    np.cumsum(values, out=sums[1:])
    return sums


@njit(cache=True, nogil=True)
def sums_of_halves(words: Any) -> Any:
    """Prefix sums of the low and of the high 32 bits of integers, in one pass; the high ones carry the sign.

    >>> [sums.tolist() for sums in sums_of_halves(np.array([5, -1, 1 << 32]))]
    [[0, 5, 4294967300, 4294967300], [0, 0, -1, 0]]
    """
    low, high = np.empty(len(words) + 1, dtype=np.int64), np.empty(len(words) + 1, dtype=np.int64)
    low[0] = high[0] = 0
    for i in range(len(words)):
        low[i + 1] = low[i] + (words[i] & 0xFFFFFFFF)
        high[i + 1] = high[i] + (words[i] >> 32)
    return low, high


@njit(cache=True, nogil=True)
def add_ranges(sums: Any, starts: Any, ends: Any, into: Any) -> None:
    """Add the sum of every range."""
    for i in range(len(starts)):
        into[i] += sums[ends[i]] - sums[starts[i]]
