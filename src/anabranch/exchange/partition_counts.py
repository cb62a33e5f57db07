"""How many rows fall into each partition, without an array as long as the rows."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

from anabranch.exchange.address import BELOW_PARTITION, PARTITIONS
from anabranch.operators.rows.arrays import Int64s, Rows32

_ALL = np.empty(0, dtype=np.int32)


def partition_counts(addresses: Int64s, rows: Rows32 | None = None) -> Int64s:
    """Rows per partition; with `rows`, of the rows at these positions, as often as they appear.

    >>> counts = partition_counts(np.array([0, 1, -1]), np.array([0, 0, 2], dtype=np.int32))
    >>> int(counts[0]), int(counts[255])
    (2, 1)
    """
    counts = np.zeros(PARTITIONS, dtype=np.int64)
    _count(addresses, _ALL if rows is None else rows, rows is None, counts)
    return counts


@njit(cache=True, nogil=True)
def _count(addresses: Any, rows: Any, every: bool, counts: Any) -> None:
    for i in range(len(addresses) if every else len(rows)):
        row = i if every else rows[i]
        counts[np.uint64(addresses[row]) >> np.uint64(BELOW_PARTITION)] += 1
