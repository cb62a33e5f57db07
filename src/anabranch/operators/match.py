"""The probe kernel: pairs of rows with equal hash and overlapping windows, from two sorted sides."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numba import njit

from anabranch.operators.arrays import Int64s, Rows32

CHUNK_PAIRS = 1 << 20
"""Pairs produced at a time: bounds the memory of a join whatever its fan-out."""
FIRST_PAIRS = 1 << 12
"""Room for pairs to begin with, which most probes need no more than: fresh memory costs more than they do."""


@dataclass(frozen=True, slots=True)
class Side:
    """One side of a probe: hashes in ascending order, and how to find the row behind each.

    Inside a run of equal hashes rows ascend by `times`. The deadline of row r is
    `deadlines[r] + window_us`.
    """

    hashes: Int64s
    rows: Rows32 | None
    """Row behind each position of `hashes`; None when it is the position itself."""
    times: Int64s
    deadlines: Int64s
    window_us: int
    deadline_follows_time: bool
    """Whether deadlines ascend with times, so that a probe may skip to the first live row."""


_IDENTITY = np.empty(0, dtype=np.int32)


def match(new: Side, old: Side, *, chunk: int = CHUNK_PAIRS) -> Iterator[tuple[Rows32, Rows32]]:
    """Yield (rows of `new`, rows of `old`) whose hashes agree and whose combination is in the window.

    The combination of two rows is in the window when the later of their times is no later than the
    earlier of their deadlines (design, section 4: `max(ts) - ts_i <= W_i` for every i).
    Costs grow with `new`: `old` is entered by galloping search, and a hot key's run by binary search.
    """
    if not len(new.hashes) or not len(old.hashes):
        return
    i, q = 0, -1
    room = max(FIRST_PAIRS, 2 * len(new.hashes))
    while i < len(new.hashes):
        left, right, i, q = _match(
            new.hashes,
            _IDENTITY if new.rows is None else new.rows,
            new.times,
            new.deadlines,
            new.window_us,
            old.hashes,
            _IDENTITY if old.rows is None else old.rows,
            old.times,
            old.deadlines,
            old.window_us,
            old.deadline_follows_time,
            i,
            q,
            min(room, chunk),
        )
        room *= 2
        if len(left):
            yield left, right


@njit(cache=True, nogil=True)
def _lower_bound(values: Any, wanted: Any, start: int) -> int:
    """First position from `start` on with values[position] >= wanted, by galloping."""
    n = len(values)
    if start >= n or values[start] >= wanted:
        return start
    step = 1
    low = start
    while low + step < n and values[low + step] < wanted:
        low += step
        step *= 2
    high = min(low + step, n)
    while low + 1 < high:
        mid = (low + high) // 2
        if values[mid] < wanted:
            low = mid
        else:
            high = mid
    return high


@njit(cache=True, nogil=True)
def _first_live(rows: Any, deadlines: Any, wanted: Any, start: int, end: int) -> int:
    """First position in [start, end) whose deadline reaches `wanted`, where deadlines ascend."""
    low, high = start, end
    while low < high:
        mid = (low + high) // 2
        row = rows[mid] if len(rows) else mid
        if deadlines[row] < wanted:
            low = mid + 1
        else:
            high = mid
    return low


@njit(cache=True, nogil=True)
def _match(
    new_hashes: Any,
    new_rows: Any,
    new_times: Any,
    new_deadlines: Any,
    new_window: int,
    old_hashes: Any,
    old_rows: Any,
    old_times: Any,
    old_deadlines: Any,
    old_window: int,
    old_follows: bool,
    first: int,
    resume: int,
    chunk: int,
) -> Any:
    """One chunk of pairs; returns them and where to go on: (new position, old position or -1)."""
    left = np.empty(chunk, dtype=np.int32)
    right = np.empty(chunk, dtype=np.int32)
    found = 0
    run = 0
    n_old = len(old_hashes)
    for i in range(first, len(new_hashes)):
        wanted = new_hashes[i]
        run = _lower_bound(old_hashes, wanted, run)
        if run == n_old:
            break
        if old_hashes[run] != wanted:
            continue
        a = new_rows[i] if len(new_rows) else i
        time_a = new_times[a]
        deadline_a = new_deadlines[a] + new_window
        q = run
        if resume >= 0:
            q = resume
            resume = -1
        elif old_follows and run + 8 < n_old and old_hashes[run + 8] == wanted:
            end = _lower_bound(old_hashes, wanted + 1, run) if wanted < 9223372036854775807 else n_old
            q = _first_live(old_rows, old_deadlines, time_a - old_window, run, end)
        while q < n_old and old_hashes[q] == wanted:
            b = old_rows[q] if len(old_rows) else q
            time_b = old_times[b]
            if time_b > deadline_a:
                break  # times ascend inside the run
            if time_a <= old_deadlines[b] + old_window:
                if found == chunk:
                    return left, right, i, q
                left[found] = a
                right[found] = b
                found += 1
            q += 1
    return left[:found].copy(), right[:found].copy(), len(new_hashes), -1
