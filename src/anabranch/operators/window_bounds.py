"""Where windows lie in a block: per row the positions of its group's rows inside its window."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

from anabranch.operators.match import _lower_bound
from anabranch.operators.order import Int64s

_LARGEST = np.iinfo(np.int64).max


def window_bounds(
    hashes: Int64s, times: Int64s, *, of_hashes: Int64s, first: Int64s, last: Int64s
) -> tuple[Int64s, Int64s]:
    """Per wanted row the range of positions with its hash and a time from `first` to `last`.

    Both the block (`hashes`, `times`) and the wanted rows ascend by (hash, time), so that a block is
    passed through once, from group to group by galloping; the cost grows with the wanted rows.
    """
    starts = np.zeros(len(of_hashes), dtype=np.int64)
    ends = np.zeros(len(of_hashes), dtype=np.int64)
    if len(hashes):
        _window_bounds(hashes, times, of_hashes, first, last, starts, ends)
    return starts, ends


@njit(cache=True, nogil=True)
def _window_bounds(
    hashes: Any, times: Any, of_hashes: Any, first: Any, last: Any, starts: Any, ends: Any
) -> None:
    n = len(hashes)
    run = 0
    run_end = 0
    start = 0
    end = 0
    for i in range(len(of_hashes)):
        wanted = of_hashes[i]
        if i == 0 or wanted != of_hashes[i - 1]:
            run = _lower_bound(hashes, wanted, run_end)
            run_end = run
            if run < n and hashes[run] == wanted:
                run_end = n if wanted == _LARGEST else _lower_bound(hashes, wanted + 1, run)
            start = run
            end = run
        start = _lower_bound(times[:run_end], first[i], start)
        end = _lower_bound(times[:run_end], last[i] + 1, end)
        starts[i] = start
        ends[i] = max(start, end)
