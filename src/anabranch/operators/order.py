"""Sort orders: rows by hash, and by time inside a run of equal hashes."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from numba import njit

Int64s = npt.NDArray[np.int64]
Rows32 = npt.NDArray[np.int32]


def order_by_hash(hashes: Int64s, times: Int64s) -> Rows32:
    """Permutation that sorts by (hash, time).

    One vectorised sort on the hash, then a repair of the runs: runs are short unless a key is hot,
    and sorting on two keys at once costs several times as much.
    """
    order = np.argsort(hashes).astype(np.int32)
    _sort_runs(hashes, times, order)
    return order


def combine_hashes(parts: list[Int64s]) -> Int64s:
    """One join hash from the hashes of several keys."""
    combined = parts[0]
    for part in parts[1:]:
        combined = _mix(combined, part)
    return combined


@njit(cache=True, nogil=True)
def _sort_runs(hashes: Any, times: Any, order: Any) -> None:
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
