"""The probe kernel: pairs of rows with equal hash and overlapping windows, from two sorted sides."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numba import njit

from anabranch.operators.rows.arrays import Int64s, Rows32, read_only

CHUNK_PAIRS = 1 << 20
"""Pairs produced at a time: bounds the memory of a join whatever its fan-out."""
FIRST_PAIRS = 1 << 12
"""Room for pairs to begin with, which most probes need no more than: fresh memory costs more than they do."""
FEW = 8
"""Rows of a run up to which it is passed through, row by row."""


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
    longest_us: int
    """No deadline is further from its time than that: a probe skips rows that are long past theirs."""


_IDENTITY = np.empty(0, dtype=np.int32)


def match(new: Side, old: Side, *, chunk: int = CHUNK_PAIRS) -> Iterator[tuple[Rows32, Rows32]]:
    """Yield (rows of `new`, rows of `old`) whose hashes agree and whose combination is in the window.

    The combination of two rows is in the window when the later of their times is no later than the
    earlier of their deadlines (docs/semantics.md: `max(ts) - ts_i <= W_i` for every i).
    Costs grow with `new`: `old` is entered by galloping search, and so is a hot key's run. What is past its
    deadline there is passed by once, not once per new row.
    """
    if not len(new.hashes) or not len(old.hashes):
        return
    new_hashes, new_times, new_deadlines = (read_only(a) for a in (new.hashes, new.times, new.deadlines))
    old_hashes, old_times, old_deadlines = (read_only(a) for a in (old.hashes, old.times, old.deadlines))
    i, q = 0, -1
    room = max(FIRST_PAIRS, 2 * len(new.hashes))
    while i < len(new.hashes):
        left, right, i, q = _match(
            new_hashes,
            _IDENTITY if new.rows is None else new.rows,
            new_times,
            new_deadlines,
            new.window_us,
            old_hashes,
            _IDENTITY if old.rows is None else old.rows,
            old_times,
            old_deadlines,
            old.window_us,
            old.longest_us,
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
def _first_since(rows: Any, times: Any, wanted: Any, start: int, end: int) -> int:
    """First position in [start, end) whose time reaches `wanted`, by galloping."""
    step = 1
    low, high = start, start
    while high < end and times[rows[high] if len(rows) else high] < wanted:
        low = high + 1
        high += step
        step *= 2
    high = min(high, end)
    while low < high:
        mid = (low + high) // 2
        if times[rows[mid] if len(rows) else mid] < wanted:
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
    old_longest: int,
    first: int,
    resume: int,
    chunk: int,
) -> Any:
    """One chunk of pairs; returns them and where to go on: (new position, old position or -1)."""
    left, right = np.empty(chunk, dtype=np.int32), np.empty(chunk, dtype=np.int32)
    found: Any = np.int64(0)  # as a constant it would be a type of its own to what is called
    run: Any = np.int64(0)
    n_old = len(old_hashes)
    i = first
    while i < len(new_hashes):
        wanted = new_hashes[i]
        run = _lower_bound(old_hashes, wanted, run)
        if run == n_old:
            break
        if run + FEW < n_old and old_hashes[run + FEW] == wanted:
            i, resume, found = _match_long_run(
                new_hashes, new_rows, new_times, new_deadlines, new_window,
                old_hashes, old_rows, old_times, old_deadlines, old_window,
                old_longest, i, run, resume, left, right, found,
            )  # fmt: skip
            if resume >= 0:
                return left, right, i, resume
            continue
        a = new_rows[i] if len(new_rows) else i
        time_a = new_times[a]
        deadline_a = new_deadlines[a] + new_window
        q = run if resume < 0 else resume
        resume = -1
        while q < n_old and old_hashes[q] == wanted:
            b = old_rows[q] if len(old_rows) else q
            if old_times[b] > deadline_a:
                break  # times ascend inside the run
            if time_a <= old_deadlines[b] + old_window:
                if found == chunk:
                    return left, right, i, q
                left[found], right[found] = a, b
                found += 1
            q += 1
        i += 1
    return left[:found].copy(), right[:found].copy(), len(new_hashes), -1


@njit(cache=True, nogil=True)
def _match_long_run(
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
    old_longest: int,
    i: int,
    run: int,
    resume: int,
    left: Any,
    right: Any,
    found: int,
) -> Any:
    """All pairs with one run of `old`, or as many as there is room for: where to go on, and pairs so far.

    New rows of one hash ascend by time. What is past its deadline for one of them is so for all that follow:
    `head` is where the first row lies that is not. Where many lie behind it that are, they are passed by
    with links, which make every step dearer.
    """
    wanted = old_hashes[run]
    end = _lower_bound(old_hashes, wanted + 1, run) if wanted < 9223372036854775807 else len(old_hashes)
    head, wasted = run, 0
    while i < len(new_hashes) and new_hashes[i] == wanted:
        if wasted > end - run:
            return _match_linked(
                new_hashes, new_rows, new_times, new_deadlines, new_window,
                old_rows, old_times, old_deadlines, old_window,
                i, run, end, head, left, right, found,
            )  # fmt: skip
        a = new_rows[i] if len(new_rows) else i
        time_a = new_times[a]
        deadline_a = new_deadlines[a] + new_window
        head = _first_since(old_rows, old_times, time_a - old_window - old_longest, head, end)
        q, last = (head, -1) if resume < 0 else (resume, resume)
        resume = -1
        while q < end:
            b = old_rows[q] if len(old_rows) else q
            if old_times[b] > deadline_a:
                break
            if time_a <= old_deadlines[b] + old_window:
                if found == len(left):
                    return i, q, found
                left[found], right[found] = a, b
                found += 1
                last = q
            elif last < 0:
                head = q + 1
            else:
                wasted += 1
            q += 1
        i += 1
    return i, -1, found


@njit(cache=True, nogil=True)
def _match_linked(
    new_hashes: Any,
    new_rows: Any,
    new_times: Any,
    new_deadlines: Any,
    new_window: int,
    old_rows: Any,
    old_times: Any,
    old_deadlines: Any,
    old_window: int,
    i: int,
    run: int,
    end: int,
    head: int,
    left: Any,
    right: Any,
    found: int,
) -> Any:
    """The same from new row `i` on; `after` leads from a row past those behind it whose time is over."""
    wanted = new_hashes[i]
    after = np.arange(run + 1, end + 1)
    while i < len(new_hashes) and new_hashes[i] == wanted:
        a = new_rows[i] if len(new_rows) else i
        time_a = new_times[a]
        deadline_a = new_deadlines[a] + new_window
        q, last = head, -1
        while q < end:
            b = old_rows[q] if len(old_rows) else q
            if old_times[b] > deadline_a:
                break
            following = after[q - run]
            if time_a <= old_deadlines[b] + old_window:
                if found == len(left):
                    return i, q, found
                left[found], right[found] = a, b
                found += 1
                last = q
            elif last < 0:
                head = following
            else:
                after[last - run] = following
            q = following
        i += 1
    return i, -1, found
