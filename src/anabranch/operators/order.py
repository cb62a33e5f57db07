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


def order_by_hash(hashes: Int64s, times: Int64s, sequence: Int64s | None = None) -> Rows32:
    """Permutation that sorts by (hash, time, sequence)."""
    if sequence is None and LONG_RUN * _descents(hashes) < len(hashes):
        order = np.argsort(hashes, kind="stable").astype(np.int32)  # of blocks that are sorted already
        _sort_runs(hashes, times, order)
        return order
    order = np.arange(len(hashes), dtype=np.int32)
    for values in (times, hashes) if sequence is None else (sequence, times, hashes):
        if _descents(values := values[order]):
            order = order[stable_order(values)]
    return order


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
def _sort_runs(hashes: Any, times: Any, order: Any) -> None:
    """Bring rows of equal hash into the order of time, where they are not."""
    n = len(order)
    start = 0
    while start < n:
        run_hash = hashes[order[start]]
        end = start + 1
        in_order = True
        while end < n and hashes[order[end]] == run_hash:
            if times[order[end]] < times[order[end - 1]]:
                in_order = False
            end += 1
        if not in_order:
            run = order[start:end].copy()
            by_time = np.argsort(times[run], kind="mergesort")
            for i in range(end - start):
                order[start + i] = run[by_time[i]]
        start = end


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
