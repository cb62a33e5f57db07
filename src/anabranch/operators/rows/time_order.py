"""Rows inside runs of equal hashes in the order of time, whether a run has two rows or all of them.

Most runs are short, and a step or two brings each row to its place. These steps grow with the square of the
length of a run. So rows of long runs are sorted as other values are (`sorting`), all of them together.
Each run is judged by itself: one hot key among a million others would hide behind the average.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

from anabranch.operators.rows.arrays import Int64s, Rows32, read_only
from anabranch.operators.rows.sorting import ascending

SHORT = 16
"""Rows of a run up to which each is moved to its place, row by row."""
_ROOM = 2.0**62
"""What the spans of all long runs may add up to."""


def order_by_time(hashes: Int64s, times: Int64s, rows: Rows32) -> None:
    """Bring rows, which are in the order of their hashes, into the order of time where hashes are equal.

    >>> rows = np.array([3, 0, 1, 2], dtype=np.int32)
    >>> order_by_time(np.array([-4, 7, 7, 7]), np.array([30, 10, 20, 99]), rows)
    >>> rows.tolist()
    [3, 1, 2, 0]
    """
    hashes, times = read_only(hashes), read_only(times)
    starts, ends = _order_short_runs(hashes, times, rows)
    if not len(starts):
        return
    taken, numbers, fits = _run_and_time(times, rows, starts, ends)
    if fits:
        taken = ascending(numbers, taken)[1]
    else:
        by_time = ascending(times[taken])[1]
        runs = np.repeat(np.arange(len(starts)), ends - starts)
        taken = ascending(runs[by_time], taken[by_time])[1]
    _put_back(rows, starts, ends, taken)


@njit(cache=True, nogil=True)
def _order_short_runs(hashes: Any, times: Any, rows: Any) -> Any:
    """Order short runs; return where the long ones that are out of order start and end."""
    starts = np.empty(len(rows) // SHORT + 1, dtype=np.int32)
    ends = np.empty(len(rows) // SHORT + 1, dtype=np.int32)
    found: Any = np.int64(0)  # as a constant it would be a type of its own to what is called
    start: Any = np.int64(0)
    in_order = True
    for i in range(1, len(rows) + 1):
        if i < len(rows) and hashes[i] == hashes[i - 1]:
            in_order = in_order and times[rows[i]] >= times[rows[i - 1]]
            continue
        if not in_order and i - start > SHORT:
            starts[found], ends[found] = start, i
            found += 1
        elif not in_order:
            _order_run(times, rows, start, i)
        start, in_order = i, True
    return starts[:found], ends[:found]


@njit(cache=True, nogil=True)
def _order_run(times: Any, rows: Any, start: int, end: int) -> None:
    """Move each row of a run to its place."""
    for i in range(start + 1, end):
        row = rows[i]
        j = i
        while j > start and times[rows[j - 1]] > times[row]:
            rows[j] = rows[j - 1]
            j -= 1
        rows[j] = row


@njit(cache=True, nogil=True)
def _run_and_time(times: Any, rows: Any, starts: Any, ends: Any) -> Any:
    """The rows of some runs, for each a number that ascends by run and then by time, and whether it can."""
    size = 0
    for run in range(len(starts)):
        size += ends[run] - starts[run]
    taken, numbers = np.empty(size, dtype=np.int32), np.empty(size, dtype=np.int64)
    at, base, room = 0, np.int64(0), _ROOM
    for run in range(len(starts)):
        first = at
        lowest = highest = times[rows[starts[run]]]
        for i in range(starts[run], ends[run]):
            taken[at] = rows[i]
            time = times[rows[i]]
            lowest, highest = min(lowest, time), max(highest, time)
            numbers[at] = time
            at += 1
        room -= float(highest) - float(lowest) + 1.0
        if room > 0.0:
            numbers[first:at] += base - lowest
            base += highest - lowest + 1
    return taken, numbers, room > 0.0


@njit(cache=True, nogil=True)
def _put_back(rows: Any, starts: Any, ends: Any, taken: Any) -> None:
    at = 0
    for run in range(len(starts)):
        for i in range(starts[run], ends[run]):
            rows[i] = taken[at]
            at += 1
