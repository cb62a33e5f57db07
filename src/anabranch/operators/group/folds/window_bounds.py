"""Where windows lie in a block: per row the positions of its group's rows inside its window."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numba import njit

from anabranch.operators.join.match import _lower_bound
from anabranch.operators.rows.arrays import Int64s, read_only
from anabranch.operators.rows.column_codes import Flags
from anabranch.operators.rows.row_set import RowSet, int64s
from anabranch.plan.inputs import HASH, TIME


@dataclass(frozen=True, slots=True)
class Runs:
    """The runs of equal hashes in a set of rows: a directory that is searched instead of the rows."""

    hashes: Int64s
    starts: Int64s
    """One more than there are runs: the last is the number of rows."""

    @classmethod
    def of(cls, rows: RowSet) -> Runs:
        """Found once per set."""
        return rows.derived("runs", lambda: cls._find(int64s(rows.batch, HASH)))

    @classmethod
    def _find(cls, hashes: Int64s) -> Runs:
        starts = np.flatnonzero(np.append(True, hashes[1:] != hashes[:-1])) if len(hashes) else hashes
        return cls(hashes[starts], np.append(starts, len(hashes)))


@dataclass(frozen=True, slots=True)
class Ranges:
    """Ranges of positions [start, end), each inside a run."""

    starts: Int64s
    ends: Int64s
    to_end: Flags
    """Whether a range reaches the end of its run: then a suffix of the run answers it."""


def positions_in(starts: Int64s, ends: Int64s) -> Int64s:
    """All positions of several ranges, one range after the other.

    >>> positions_in(np.array([3, 9]), np.array([6, 10])).tolist()
    [3, 4, 5, 9]
    """
    lengths = ends - starts
    before = np.cumsum(lengths) - lengths
    found: Int64s = np.repeat(starts - before, lengths) + np.arange(int(lengths.sum()))
    return found


def window_bounds(rows: RowSet, *, of_hashes: Int64s, first: Int64s, last: Int64s) -> Ranges:
    """Per wanted row the range of positions with its hash and a time from `first` to `last`.

    Both `rows` and the wanted rows ascend by (hash, time), so that a block is passed through once,
    from run to run by galloping; the cost grows with the wanted rows.
    """
    runs = Runs.of(rows)
    starts = np.zeros(len(of_hashes), dtype=np.int64)
    ends = np.zeros(len(of_hashes), dtype=np.int64)
    to_end = np.ones(len(of_hashes), dtype=np.bool_)
    if len(rows):
        of_runs = read_only(runs.hashes), read_only(runs.starts), read_only(int64s(rows.batch, TIME))
        wanted = read_only(of_hashes), read_only(first), read_only(last)
        fill: Any = _window_bounds
        fill(*of_runs, *wanted, starts, ends, to_end)
    return Ranges(starts, ends, to_end)


@njit(cache=True, nogil=True)
def _window_bounds(
    run_hashes: Any,
    run_starts: Any,
    times: Any,
    of_hashes: Any,
    first: Any,
    last: Any,
    starts: Any,
    ends: Any,
    to_end: Any,
) -> None:
    nothing: Any = np.int64(0)  # as a constant it would be a type of its own to what is called
    run = start = end = run_end = nothing
    for i in range(len(of_hashes)):
        wanted = of_hashes[i]
        if i == 0 or wanted != of_hashes[i - 1]:
            run = _lower_bound(run_hashes, wanted, run)
            if run < len(run_hashes) and run_hashes[run] == wanted:
                start = run_starts[run]
                run_end = run_starts[run + 1]
            else:
                start = run_end = nothing
            end = start
        if start < run_end:
            start = _lower_bound(times[:run_end], first[i], start)
        if end < run_end:
            # Mostly all of an older block is before the row: look at the last row first.
            if times[run_end - 1] <= last[i]:
                end = run_end
            else:
                end = _lower_bound(times[:run_end], last[i] + 1, end)
        starts[i] = start
        ends[i] = max(start, end)
        to_end[i] = end == run_end
