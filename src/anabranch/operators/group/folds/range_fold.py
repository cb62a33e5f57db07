"""Aggregates over ranges of positions, none of them by subtraction.

A window over a sorted block is a range of positions inside a run of equal hashes. A prefix sum would
answer it by a subtraction, which is exact for integers only: with floating numbers it cancels digits,
and one NaN or infinity would spoil every window behind it. A minimum cannot be subtracted at all.

Most ranges reach the end of their run, because most blocks are older than the row whose window it is.
They are answered by one look into *suffix aggregates*. The others, in the newest blocks, slide forward from
row to row (`sliding_fold`). Where they are few and long, they are folded from the O(log n) nodes of a binary
tree that tile them::

    run   a a a a a a a a          ├───────────────┤      node 1 covers everything,
    range       ╰─────────╯        ├───────┤├──────┤      nodes n … 2n-1 are the rows
                ▲ suffix here      ├──┤├──┤├──┤├──┤
                                      ╰─range──╯          two or three nodes here

Both are built when first needed. Every fold adds to what it finds in the result, so that several
blocks fold into one answer.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
from numba import njit

from anabranch.operators.group.folds.sliding_fold import (
    merge_moments,
    slide_minimum,
    slide_moments,
    slide_sum,
    steps,
)
from anabranch.operators.group.folds.window_bounds import Ranges, Runs
from anabranch.operators.rows.arrays import Int64s

Float64s = npt.NDArray[np.float64]
FOLDED = 4
"""What is kept of a block, in sizes of its leaves: these, their suffixes and twice as many nodes."""
SLIDE = 8
"""Rows to pass per range up to which ranges that slide forward cost less than nodes of the tree."""


class Folded:
    """Suffix aggregates and tree of one column of one block."""

    def __init__(
        self,
        leaves: npt.NDArray[Any],
        runs: Runs,
        suffixes: Callable[[Any, Any], Any],
        tree: Callable[[Any], Any],
        fold: Callable[[Any, Any, Any, Any, Any, Any], None],
        slide: Callable[[Any, Any, Any, Any, Any, Any], None],
    ) -> None:
        self._leaves = leaves
        self._runs = runs
        self._make = (suffixes, tree)
        self._fold, self._slide = fold, slide
        self._suffixes: Any = leaves[:0]
        self._tree: Any = leaves[:0]

    def fold(self, ranges: Ranges, into: npt.NDArray[Any]) -> None:
        """Add the ranges' rows to what `into` knows already."""
        if not len(self._suffixes) and ranges.to_end.any():
            self._suffixes = self._make[0](self._leaves, self._runs.starts)
        passed, inner = steps(ranges.starts, ranges.ends, ranges.to_end)
        if passed <= SLIDE * inner:
            self._slide(self._suffixes, self._leaves, ranges.starts, ranges.ends, ranges.to_end, into)
            return
        if not len(self._tree):
            self._tree = self._make[1](self._leaves)
        self._fold(self._suffixes, self._tree, ranges.starts, ranges.ends, ranges.to_end, into)


def minimum_of(codes: Int64s, runs: Runs) -> Folded:
    """Least code in a range. The largest is the complement of the least complement."""
    return Folded(codes, runs, _minimum_suffixes, _minimum_tree, _fold_minimum, slide_minimum)


def sum_of(values: Float64s, runs: Runs) -> Folded:
    """Sum of floating numbers in a range."""
    return Folded(values, runs, _sum_suffixes, _sum_tree, _fold_sum, slide_sum)


def moments_of(values: Float64s, known: npt.NDArray[np.bool_], runs: Runs) -> Folded:
    """Count, mean and sum of squared distances from the mean, as rows of three.

    Merged by the update of Chan, Golub and LeVeque (1979), which does not cancel as a difference of
    squares does. A value that is not finite makes the squares NaN, in whatever order it is merged.
    """
    squares = np.where(np.isfinite(values) | ~known, 0.0, np.nan)
    leaves = np.stack([known.astype(np.float64), np.where(known, values, 0.0), squares], axis=1)
    return Folded(leaves, runs, _moment_suffixes, _moment_tree, _fold_moments, slide_moments)


def merged_moments_of(leaves: Float64s, runs: Runs) -> Folded:
    """The same of rows that hold such moments themselves, three numbers each."""
    return Folded(leaves, runs, _moment_suffixes, _moment_tree, _fold_moments, slide_moments)


@njit(cache=True, nogil=True)
def _minimum_suffixes(leaves: Any, starts: Any) -> Any:
    suffixes = leaves.copy()
    for run in range(len(starts) - 1):
        for i in range(starts[run + 1] - 2, starts[run] - 1, -1):
            suffixes[i] = min(suffixes[i], suffixes[i + 1])
    return suffixes


@njit(cache=True, nogil=True)
def _minimum_tree(leaves: Any) -> Any:
    n = len(leaves)
    tree = np.empty(2 * n, dtype=np.int64)
    tree[n:] = leaves
    for i in range(n - 1, 0, -1):
        tree[i] = min(tree[2 * i], tree[2 * i + 1])
    return tree


@njit(cache=True, nogil=True)
def _fold_minimum(suffixes: Any, tree: Any, starts: Any, ends: Any, to_end: Any, least: Any) -> None:
    n = len(tree) // 2
    for i in range(len(starts)):
        if starts[i] >= ends[i]:
            continue
        if to_end[i]:
            least[i] = min(least[i], suffixes[starts[i]])
            continue
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
def _sum_suffixes(leaves: Any, starts: Any) -> Any:
    suffixes = leaves.copy()
    for run in range(len(starts) - 1):
        for i in range(starts[run + 1] - 2, starts[run] - 1, -1):
            suffixes[i] += suffixes[i + 1]
    return suffixes


@njit(cache=True, nogil=True)
def _sum_tree(leaves: Any) -> Any:
    n = len(leaves)
    tree = np.empty(2 * n, dtype=np.float64)
    tree[n:] = leaves
    for i in range(n - 1, 0, -1):
        tree[i] = tree[2 * i] + tree[2 * i + 1]
    return tree


@njit(cache=True, nogil=True)
def _fold_sum(suffixes: Any, tree: Any, starts: Any, ends: Any, to_end: Any, total: Any) -> None:
    n = len(tree) // 2
    for i in range(len(starts)):
        if starts[i] >= ends[i]:
            continue
        if to_end[i]:
            total[i] += suffixes[starts[i]]
            continue
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
def _moment_suffixes(leaves: Any, starts: Any) -> Any:
    suffixes = leaves.copy()
    for run in range(len(starts) - 1):
        for i in range(starts[run + 1] - 2, starts[run] - 1, -1):
            merge_moments(suffixes, i, suffixes, i + 1)
    return suffixes


@njit(cache=True, nogil=True)
def _moment_tree(leaves: Any) -> Any:
    n = len(leaves)
    tree = np.empty((2 * n, 3), dtype=np.float64)
    tree[n:] = leaves
    for i in range(n - 1, 0, -1):
        tree[i] = tree[2 * i]
        merge_moments(tree, i, tree, 2 * i + 1)
    return tree


@njit(cache=True, nogil=True)
def _fold_moments(suffixes: Any, tree: Any, starts: Any, ends: Any, to_end: Any, moments: Any) -> None:
    n = len(tree) // 2
    for i in range(len(starts)):
        if starts[i] >= ends[i]:
            continue
        if to_end[i]:
            merge_moments(moments, i, suffixes, starts[i])
            continue
        low, high = starts[i] + n, ends[i] + n
        while low < high:
            if low & 1:
                merge_moments(moments, i, tree, low)
                low += 1
            if high & 1:
                high -= 1
                merge_moments(moments, i, tree, high)
            low >>= 1
            high >>= 1
