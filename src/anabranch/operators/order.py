"""Sort orders: rows by hash, and by time inside a run of equal hashes.

NumPy sorts plain integers several times as fast as it finds the permutation that would sort them. So the
number of each row goes into the low bits of what is sorted, and comes out in the order wanted.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from numba import njit

Int64s = npt.NDArray[np.int64]
Rows32 = npt.NDArray[np.int32]

LONG_RUN = 64
"""Rows in ascending order, on average, from which on merging what is sorted beats sorting."""
FEW = 8
"""Rows with one hash, on average, up to which they are put into the order of time one by one."""


def order_by_hash(hashes: Int64s, times: Int64s, sequence: Int64s | None = None) -> Rows32:
    """Permutation that sorts by (hash, time, sequence)."""
    if sequence is None:
        return _by_time(hashes, times, _by_value(hashes))
    order = np.arange(len(hashes), dtype=np.int32)
    for values in (sequence, times, hashes):
        if _descents(values := values[order]):
            order = order[stable_order(values)]
    return order


def _by_value(values: Int64s) -> Rows32:
    descents = _descents(values)
    if not descents:
        return np.arange(len(values), dtype=np.int32)
    if LONG_RUN * descents < len(values):  # several blocks that are sorted already
        return np.argsort(values, kind="stable").astype(np.int32)
    return stable_order(values)


def _by_time(hashes: Int64s, times: Int64s, order: Rows32) -> Rows32:
    """Rows that are in the order of their hashes, inside runs of equal ones in the order of time."""
    runs, in_order = _runs(hashes, times, order)
    if in_order:
        return order
    if len(order) <= FEW * runs:
        _sort_short_runs(hashes, times, order)
        return order
    lowest = int(times.min())
    span = int(times.max()) - lowest + 1
    if runs * span < 2**63:
        return order[stable_order(_run_and_time(hashes, times, order, lowest, span))]
    order = stable_order(times)
    return order[stable_order(hashes[order])]


def stable_order(values: Int64s) -> Rows32:
    """Permutation that sorts; equal values stay in the order they have.

    >>> stable_order(np.array([5, -3, 5, 2**62, -3])).tolist()
    [1, 4, 0, 2, 3]
    """
    row_bits = (len(values) - 1).bit_length()
    lowest = values.min()
    span_bits = (int(values.max()) - int(lowest)).bit_length()
    dropped = max(0, span_bits + row_bits - 64)
    packed = _pack(values, lowest, dropped, row_bits)
    packed.sort()
    order: Rows32
    order, is_sorted = _unpack(packed, row_bits, values)
    if not is_sorted:  # some differ in dropped bits only
        order = np.argsort(values, kind="stable").astype(np.int32)
    return order


def combine_hashes(parts: list[Int64s]) -> Int64s:
    """One join hash from the hashes of several keys."""
    combined = parts[0]
    for part in parts[1:]:
        combined = _mix(combined, part)
    return combined


@njit(cache=True, nogil=True)
def _descents(values: Any) -> int:
    found = 0
    for i in range(1, len(values)):
        found += values[i] < values[i - 1]
    return found


@njit(cache=True, nogil=True)
def _pack(values: Any, lowest: Any, dropped: int, row_bits: int) -> Any:
    """Above the number of each row its value, less the lowest one, without the bits that find no room."""
    packed = np.empty(len(values), dtype=np.uint64)
    for i in range(len(values)):
        above = (np.uint64(values[i]) - np.uint64(lowest)) >> np.uint64(dropped)
        packed[i] = above << np.uint64(row_bits) | np.uint64(i)
    return packed


@njit(cache=True, nogil=True)
def _unpack(packed: Any, row_bits: int, values: Any) -> Any:
    """The rows, and whether their values ascend."""
    rows = (np.uint64(1) << np.uint64(row_bits)) - np.uint64(1)
    order = np.empty(len(packed), dtype=np.int32)
    is_sorted = True
    for i in range(len(packed)):
        order[i] = np.int32(packed[i] & rows)
        if i and values[order[i]] < values[order[i - 1]]:
            is_sorted = False
    return order, is_sorted


@njit(cache=True, nogil=True)
def _runs(hashes: Any, times: Any, order: Any) -> Any:
    """Runs of equal hashes, and whether rows ascend by time in all of them."""
    runs, in_order = min(1, len(order)), True
    for i in range(1, len(order)):
        if hashes[order[i]] != hashes[order[i - 1]]:
            runs += 1
        elif times[order[i]] < times[order[i - 1]]:
            in_order = False
    return runs, in_order


@njit(cache=True, nogil=True)
def _sort_short_runs(hashes: Any, times: Any, order: Any) -> None:
    """Move each row to its place in its run."""
    for i in range(1, len(order)):
        row = order[i]
        j = i
        while j and hashes[order[j - 1]] == hashes[row] and times[order[j - 1]] > times[row]:
            order[j] = order[j - 1]
            j -= 1
        order[j] = row


@njit(cache=True, nogil=True)
def _run_and_time(hashes: Any, times: Any, order: Any, lowest: int, span: int) -> Any:
    """For each row a number that ascends by its run, then by its time."""
    numbers = np.empty(len(order), dtype=np.int64)
    run = 0
    for i in range(len(order)):
        if i and hashes[order[i]] != hashes[order[i - 1]]:
            run += 1
        numbers[i] = run * span + (times[order[i]] - lowest)
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
