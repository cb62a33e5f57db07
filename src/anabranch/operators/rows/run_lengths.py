"""Hashes that many rows have, told exactly from rows in the order of their hashes."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

from anabranch.operators.rows.arrays import Int64s


def long_runs(hashes: Int64s, least: int) -> list[tuple[int, int]]:
    """(hash, rows) of those that at least so many rows have; the hashes ascend.

    Looks at every `least`-th hash first: a run as long as that covers one of them.

    >>> long_runs(np.array([1, 4, 4, 4, 7]), 2)
    [(4, 3)]
    """
    least = max(1, least)
    if len(hashes) < least:
        return []
    found = _runs(hashes, least)
    return [(int(h), int(n)) for h, n in found]


@njit(cache=True, nogil=True)
def _runs(hashes: Any, least: Any) -> Any:
    found = []
    at = least - 1
    last = hashes[0]
    seen = False
    while at < len(hashes):
        value = hashes[at]
        if not seen or value != last:
            low = np.searchsorted(hashes, value, side="left")
            high = np.searchsorted(hashes, value, side="right")
            if high - low >= least:
                found.append((value, high - low))
            last, seen = value, True
        at += least
    return found
