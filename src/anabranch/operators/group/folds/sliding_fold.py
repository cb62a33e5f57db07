"""Aggregates over ranges that slide forward, in a step or two per row and without subtraction.

Windows of one group move on from row to row. What they hold is known in two parts: suffix aggregates up to
a pivot, and one aggregate of all that has come in since. A range behind the pivot sets a new one (two stacks,
as in Tangwongsan, Hirzel, Schneider, "General Incremental Sliding-Window Aggregation")::

    ├── suffixes ──┤ pivot ├── since ──┤
         ╰────────── range ────────────╯

Ranges in no order would need new suffixes each: `steps` tells what it would cost, before it is done.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

NOTHING = np.iinfo(np.int64).max
"""Minimum of no codes."""


@njit(cache=True, nogil=True)
def steps(starts: Any, ends: Any, to_end: Any) -> Any:
    """How many rows are passed in all, and for how many ranges: those that do not reach the end of their run.

    >>> steps(np.array([0, 2, 3]), np.array([4, 5, 9]), np.array([False, False, True]))
    (5, 2)
    """
    passed = ranges = 0
    low = pivot = end = 0
    for i in range(len(starts)):
        if to_end[i] or starts[i] >= ends[i]:
            continue
        ranges += 1
        if starts[i] >= pivot or starts[i] < low or ends[i] < end:
            passed += ends[i] - starts[i]
            low, pivot, end = starts[i], ends[i], ends[i]
        passed += ends[i] - end
        end = ends[i]
    return passed, ranges


@njit(cache=True, nogil=True)
def slide_minimum(suffixes: Any, leaves: Any, starts: Any, ends: Any, to_end: Any, least: Any) -> None:
    back, since = np.empty_like(leaves), NOTHING
    low = pivot = end = 0
    for i in range(len(starts)):
        if starts[i] >= ends[i]:
            continue
        if to_end[i]:
            least[i] = min(least[i], suffixes[starts[i]])
            continue
        if starts[i] >= pivot or starts[i] < low or ends[i] < end:
            low, pivot, end = starts[i], ends[i], ends[i]
            since = NOTHING
            back[pivot - 1] = leaves[pivot - 1]
            for j in range(pivot - 2, low - 1, -1):
                back[j] = min(leaves[j], back[j + 1])
        while end < ends[i]:
            since = min(since, leaves[end])
            end += 1
        least[i] = min(least[i], min(back[starts[i]], since))


@njit(cache=True, nogil=True)
def slide_sum(suffixes: Any, leaves: Any, starts: Any, ends: Any, to_end: Any, total: Any) -> None:
    back, since = np.empty_like(leaves), 0.0
    low = pivot = end = 0
    for i in range(len(starts)):
        if starts[i] >= ends[i]:
            continue
        if to_end[i]:
            total[i] += suffixes[starts[i]]
            continue
        if starts[i] >= pivot or starts[i] < low or ends[i] < end:
            low, pivot, end = starts[i], ends[i], ends[i]
            since = 0.0
            back[pivot - 1] = leaves[pivot - 1]
            for j in range(pivot - 2, low - 1, -1):
                back[j] = leaves[j] + back[j + 1]
        while end < ends[i]:
            since += leaves[end]
            end += 1
        total[i] += back[starts[i]] + since


@njit(cache=True, nogil=True)
def merge_moments(into: Any, i: int, other: Any, j: int) -> None:
    """Merge count, mean and squared distances by the update of Chan, Golub and LeVeque (1979)."""
    if other[j, 0] == 0.0:
        return
    if into[i, 0] == 0.0:
        into[i, 0], into[i, 1], into[i, 2] = other[j, 0], other[j, 1], other[j, 2]
        return
    count = into[i, 0] + other[j, 0]
    distance = other[j, 1] - into[i, 1]
    into[i, 2] += other[j, 2] + distance * distance * (into[i, 0] * other[j, 0] / count)
    into[i, 1] += distance * (other[j, 0] / count)
    into[i, 0] = count


@njit(cache=True, nogil=True)
def slide_moments(suffixes: Any, leaves: Any, starts: Any, ends: Any, to_end: Any, moments: Any) -> None:
    back, since = np.empty_like(leaves), np.zeros((1, 3))
    low = pivot = end = 0
    for i in range(len(starts)):
        if starts[i] >= ends[i]:
            continue
        if to_end[i]:
            merge_moments(moments, i, suffixes, starts[i])
            continue
        if starts[i] >= pivot or starts[i] < low or ends[i] < end:
            low, pivot, end = starts[i], ends[i], ends[i]
            since[:] = 0.0
            back[pivot - 1] = leaves[pivot - 1]
            for j in range(pivot - 2, low - 1, -1):
                back[j] = leaves[j]
                merge_moments(back, j, back, j + 1)
        while end < ends[i]:
            merge_moments(since, 0, leaves, end)
            end += 1
        merge_moments(moments, i, back, starts[i])
        merge_moments(moments, i, since, 0)
