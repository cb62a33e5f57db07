"""Sort orders: rows by hash, and by time inside a run of equal hashes."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

from anabranch.operators.arrays import Int64s, Rows32
from anabranch.operators.sorting import ascending

FEW = 8
"""Rows with one hash, on average, up to which they are put into the order of time one by one."""


def by_hash(hashes: Int64s, times: Int64s, sequence: Int64s | None = None) -> tuple[Int64s, Rows32]:
    """The hashes in ascending order and the row of each, by (hash, time, sequence)."""
    if sequence is None:
        hashes, rows = ascending(hashes)
        return hashes, _by_time(hashes, times, rows)
    rows = np.arange(len(hashes), dtype=np.int32)
    for values in (sequence, times, hashes):
        found, order = ascending(values[rows])
        rows = rows[order]
    return found, rows


def _by_time(hashes: Int64s, times: Int64s, rows: Rows32) -> Rows32:
    """Rows that are in the order of their hashes, inside runs of equal ones in the order of time."""
    runs, in_order = _runs(hashes, times, rows)
    if in_order:
        return rows
    if len(rows) <= FEW * runs:
        _sort_short_runs(hashes, times, rows)
        return rows
    lowest = int(times.min())
    span = int(times.max()) - lowest + 1
    if runs * span < 2**63:
        return rows[ascending(_run_and_time(hashes, times, rows, lowest, span))[1]]
    by_time = ascending(times[rows])[1]
    return rows[by_time[ascending(hashes[by_time])[1]]]


def combine_hashes(parts: list[Int64s]) -> Int64s:
    """One join hash from the hashes of several keys."""
    combined = parts[0]
    for part in parts[1:]:
        combined = _mix(combined, part)
    return combined


@njit(cache=True, nogil=True)
def _runs(hashes: Any, times: Any, rows: Any) -> Any:
    """Runs of equal hashes, and whether rows ascend by time in all of them."""
    runs, in_order = min(1, len(rows)), True
    for i in range(1, len(rows)):
        if hashes[i] != hashes[i - 1]:
            runs += 1
        elif times[rows[i]] < times[rows[i - 1]]:
            in_order = False
    return runs, in_order


@njit(cache=True, nogil=True)
def _sort_short_runs(hashes: Any, times: Any, rows: Any) -> None:
    """Move each row to its place in its run."""
    for i in range(1, len(rows)):
        row = rows[i]
        j = i
        while j and hashes[j - 1] == hashes[i] and times[rows[j - 1]] > times[row]:
            rows[j] = rows[j - 1]
            j -= 1
        rows[j] = row


@njit(cache=True, nogil=True)
def _run_and_time(hashes: Any, times: Any, rows: Any, lowest: int, span: int) -> Any:
    """For each row a number that ascends by its run, then by its time."""
    numbers = np.empty(len(rows), dtype=np.int64)
    run = 0
    for i in range(len(rows)):
        if i and hashes[i] != hashes[i - 1]:
            run += 1
        numbers[i] = run * span + (times[rows[i]] - lowest)
    return numbers


@njit(cache=True, nogil=True)
def _mix(left: Any, right: Any) -> Any:
    """Fold two 64-bit hashes into one (the finaliser of splitmix64 over their combination)."""
    mixed = np.empty(len(left), dtype=np.int64)
    for i in range(len(left)):
        x = np.uint64(left[i]) * np.uint64(0x9E3779B97F4A7C15) + np.uint64(right[i])
        x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        mixed[i] = np.int64(x ^ (x >> np.uint64(31)))
    return mixed
