"""Aggregates over ranges of positions: trees that answer any range in logarithmic time.

A window over a sorted block is a range of positions. A prefix sum would answer it by a subtraction,
which is exact for integers only: with floating numbers it cancels digits, and one NaN or infinity
would spoil every window behind it. A minimum cannot be subtracted at all. So each of these keeps a
binary tree over the positions, and a range is folded from the O(log n) nodes that tile it::

    ├───────────────┤            node 1 covers everything, nodes n … 2n-1 are the rows
    ├───────┤├──────┤
    ├──┤├──┤├──┤├──┤
       ╰─range──╯               two or three nodes here

Every fold adds to what it finds in the result, so that several blocks fold into one answer.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from numba import njit

from anabranch.operators.order import Int64s

Float64s = npt.NDArray[np.float64]
NOTHING = np.iinfo(np.int64).max
"""Minimum of no codes."""


class MinimumTree:
    """Least code in a range. The largest is the complement of the least complement."""

    def __init__(self, codes: Int64s) -> None:
        self._tree = _minimum_tree(codes)

    def fold(self, starts: Int64s, ends: Int64s, least: Int64s) -> None:
        _fold_minimum(self._tree, starts, ends, least)


class SumTree:
    """Sum of floating numbers in a range, added pairwise: the error grows with the logarithm."""

    def __init__(self, values: Float64s) -> None:
        self._tree = _sum_tree(values)

    def fold(self, starts: Int64s, ends: Int64s, total: Float64s) -> None:
        _fold_sum(self._tree, starts, ends, total)


class MomentTree:
    """Count, mean and sum of squared distances from the mean in a range.

    Merged by the update of Chan, Golub and LeVeque (1979), which does not cancel as a difference of
    squares does.
    """

    def __init__(self, values: Float64s, weights: Float64s) -> None:
        self._tree = _moment_tree(values, weights)

    def fold(self, starts: Int64s, ends: Int64s, moments: Float64s) -> None:
        """Add to `moments`: one row of (count, mean, squared distances) per range."""
        _fold_moments(self._tree, starts, ends, moments)


@njit(cache=True, nogil=True)
def _minimum_tree(codes: Any) -> Any:
    n = len(codes)
    tree = np.empty(2 * n, dtype=np.int64)
    tree[n:] = codes
    for i in range(n - 1, 0, -1):
        tree[i] = min(tree[2 * i], tree[2 * i + 1])
    return tree


@njit(cache=True, nogil=True)
def _fold_minimum(tree: Any, starts: Any, ends: Any, least: Any) -> None:
    n = len(tree) // 2
    for i in range(len(starts)):
        low, high = starts[i] + n, ends[i] + n
        found = least[i]
        while low < high:
            if low & 1:
                found = min(found, tree[low])
                low += 1
            if high & 1:
                high -= 1
                found = min(found, tree[high])
            low >>= 1
            high >>= 1
        least[i] = found


@njit(cache=True, nogil=True)
def _sum_tree(values: Any) -> Any:
    n = len(values)
    tree = np.empty(2 * n, dtype=np.float64)
    tree[n:] = values
    for i in range(n - 1, 0, -1):
        tree[i] = tree[2 * i] + tree[2 * i + 1]
    return tree


@njit(cache=True, nogil=True)
def _fold_sum(tree: Any, starts: Any, ends: Any, total: Any) -> None:
    n = len(tree) // 2
    for i in range(len(starts)):
        low, high = starts[i] + n, ends[i] + n
        found = 0.0
        while low < high:
            if low & 1:
                found += tree[low]
                low += 1
            if high & 1:
                high -= 1
                found += tree[high]
            low >>= 1
            high >>= 1
        total[i] += found


@njit(cache=True, nogil=True)
def _moment_tree(values: Any, weights: Any) -> Any:
    n = len(values)
    tree = np.zeros((2 * n, 3), dtype=np.float64)
    for i in range(n):
        if weights[i] > 0:
            tree[n + i, 0] = 1.0
            tree[n + i, 1] = values[i]
            if not np.isfinite(values[i]):
                tree[n + i, 2] = np.nan  # in whatever order it is merged
    for i in range(n - 1, 0, -1):
        tree[i] = tree[2 * i]
        _merge_moments(tree, i, tree, 2 * i + 1)
    return tree


@njit(cache=True, nogil=True)
def _merge_moments(into: Any, i: int, other: Any, j: int) -> None:
    count = into[i, 0] + other[j, 0]
    if other[j, 0] == 0.0:
        return
    if into[i, 0] == 0.0:
        into[i, 0], into[i, 1], into[i, 2] = other[j, 0], other[j, 1], other[j, 2]
        return
    distance = other[j, 1] - into[i, 1]
    into[i, 2] += other[j, 2] + distance * distance * (into[i, 0] * other[j, 0] / count)
    into[i, 1] += distance * (other[j, 0] / count)
    into[i, 0] = count


@njit(cache=True, nogil=True)
def _fold_moments(tree: Any, starts: Any, ends: Any, moments: Any) -> None:
    n = len(tree) // 2
    for i in range(len(starts)):
        low, high = starts[i] + n, ends[i] + n
        while low < high:
            if low & 1:
                _merge_moments(moments, i, tree, low)
                low += 1
            if high & 1:
                high -= 1
                _merge_moments(moments, i, tree, high)
            low >>= 1
            high >>= 1
