"""Sort orders: rows by hash, and by time inside a run of equal hashes."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

from anabranch.operators.rows.arrays import Int64s, Rows32
from anabranch.operators.rows.sorting import ascending
from anabranch.operators.rows.time_order import order_by_time


def by_hash(hashes: Int64s, times: Int64s, sequence: Int64s | None = None) -> tuple[Int64s, Rows32]:
    """The hashes in ascending order and the row of each, by (hash, time, sequence)."""
    if sequence is None:
        hashes, rows = ascending(hashes)
        order_by_time(hashes, times, rows)
        return hashes, rows
    rows = np.arange(len(hashes), dtype=np.int32)
    for values in (sequence, times, hashes):
        found, rows = ascending(values[rows], rows)
    return found, rows


def combine_hashes(parts: list[Int64s]) -> Int64s:
    """One join hash from the hashes of several keys."""
    combined = parts[0]
    for part in parts[1:]:
        combined = _mix(combined, part)
    return combined


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
