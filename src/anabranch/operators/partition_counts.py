"""How many rows fall into each partition, without an array as long as the rows."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

from anabranch.exchange.partition_map import PARTITION_BITS, PARTITIONS
from anabranch.operators.arrays import Int64s, Rows32

_SHIFT = 64 - PARTITION_BITS
_ALL = np.empty(0, dtype=np.int32)


def partition_counts(hashes: Int64s, rows: Rows32 | None = None) -> Int64s:
    """Rows per partition; with `rows`, of the rows at these positions, as often as they appear.

    >>> counts = partition_counts(np.array([0, 1, -1]), np.array([0, 0, 2], dtype=np.int32))
    >>> int(counts[0]), int(counts[255])
    (2, 1)
    """
    counts = np.zeros(PARTITIONS, dtype=np.int64)
    _count(hashes, _ALL if rows is None else rows, rows is None, counts)
    return counts


@njit(cache=True, nogil=True)
def _count(hashes: Any, rows: Any, every: bool, counts: Any) -> None:
    for i in range(len(hashes) if every else len(rows)):
        row = i if every else rows[i]
        counts[np.uint64(hashes[row]) >> np.uint64(_SHIFT)] += 1
