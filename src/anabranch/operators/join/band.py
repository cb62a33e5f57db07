"""The band kernel: pairs whose values differ by no more and no less than given, and whose windows overlap.

Rows of one side are in the order of their values. For each row of the other side, those that it may meet
are then a run, which begins no earlier than that of the row before::

    low of driving rows      2   2     5       9
    keys of sorted rows    0 1 2 3 4 5 6 7 8 9
                               └───┘ └───┘     └─ …

Bounds are exact (`band_bounds`), so a pair inside them needs no further test. With more bands than the one
that is sorted by, the others are tested on what it leaves.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any

import numpy as np
import numpy.typing as npt
from numba import njit

from anabranch.operators.join.band_bounds import Bounds, bounds_of
from anabranch.operators.join.match import CHUNK_PAIRS, FIRST_PAIRS
from anabranch.operators.rows.arrays import Int64s, Rows32
from anabranch.operators.rows.order_keys import order_keys
from anabranch.operators.rows.row_set import RowSet
from anabranch.operators.rows.sorting import ascending
from anabranch.plan.logical import Band
from anabranch.plan.nodes import Operand

SAMPLE = 256
"""Rows by which ways to find pairs are compared."""
_NO_ROWS = np.empty(0, dtype=np.int32)


@dataclass(frozen=True, slots=True)
class BandRows:
    """Rows of one side, with what bands and windows ask of them."""

    rows: RowSet
    node: Operand
    columns: tuple[str, ...]
    """Physical columns that bands compare: where one is NULL, a row meets nothing."""

    def keys(self, column: str) -> Int64s:
        if self.rows.is_plain(column):
            return self.rows.int64s(column)
        name = ("order keys", column)
        return self.rows.index(name, lambda: (order_keys(self.rows.batch.column(column)), _NO_ROWS))[0]

    def known(self) -> Rows32:
        """Rows without NULL."""
        valid = np.ones(len(self.rows), dtype=np.bool_)
        for column in map(self.rows.batch.column, self.columns):
            if column.null_count:
                valid &= column.is_valid().to_numpy(zero_copy_only=False)
        return np.flatnonzero(valid).astype(np.int32)

    def sorted_by(self, column: str) -> tuple[Int64s, Rows32]:
        """Keys of a column in ascending order, and the rows behind them."""

        def build() -> tuple[Int64s, Rows32]:
            known = self.known()
            return ascending(self.keys(column)[known], known)

        return self.rows.index(("band", column, *self.columns), build)

    @property
    def times(self) -> Int64s:
        return self.rows.int64s(self.node.max_time)

    @property
    def deadlines(self) -> Int64s:
        return self.rows.int64s(self.node.deadline)

    def span(self) -> tuple[int, int]:
        """The newest time, and the earliest deadline."""
        names = self.node.max_time, self.node.deadline
        newest, earliest = self.rows.derived(
            ("span", *names), lambda: (int(self.times.max()), int(self.deadlines.min()))
        )
        return newest, earliest + self.node.window_us


@dataclass(frozen=True, slots=True)
class Drive:
    """One way to find pairs: for each row of `driving`, a run of `sorted` by one of its columns."""

    driving: BandRows
    sorted: BandRows
    column: str
    """Of `sorted`."""
    bands: tuple[Band, ...]
    """Those of this column, from a physical column of `driving` to it."""
    others: tuple[Band, ...]

    def runs(self) -> tuple[Bounds, Rows32]:
        """Bounds of driving rows that have any, by the lower one, and the rows."""

        def build() -> tuple[Int64s, Rows32]:
            low, high = self._bounds(self.bands)
            known = self.driving.known()
            known = known[low[known] <= high[known]]
            return ascending(low[known], known) if len(known) else (low[:0], known)

        name = (*map(repr, self.bands), *self.driving.columns)
        low, rows = self.driving.rows.index(("runs", *name), build)
        high, _ = self.driving.rows.index(
            ("ends of runs", *name), lambda: (self._bounds(self.bands).high[rows], _NO_ROWS)
        )
        return Bounds(low, high), rows

    def tests(self) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        """For every other band: the bounds of driving rows, and the keys of sorted rows."""
        if not self.others:
            nothing = np.empty((0, 0), dtype=np.int64)
            return nothing, nothing, nothing
        bounds = [self._bounds((band,)) for band in self.others]
        keys = [self.sorted.keys(band.right) for band in self.others]
        return np.stack([b.low for b in bounds]), np.stack([b.high for b in bounds]), np.stack(keys)

    def share(self) -> float:
        """The part of all pairs that lies in runs, by a sample of driving rows."""
        (low, high), _ = self.runs()
        keys, _ = self.sorted.sorted_by(self.column)
        step = max(1, len(low) // SAMPLE)
        first = np.searchsorted(keys, low[::step], side="left")
        last = np.searchsorted(keys, high[::step], side="right")
        return float((last - first).sum() * step / max(1, len(self.driving.rows) * len(keys)))

    def _bounds(self, bands: Sequence[Band]) -> Bounds:
        return reduce(Bounds.within, (bounds_of(band, self.driving.keys(band.left)) for band in bands))


def band_match(drive: Drive, *, chunk: int = CHUNK_PAIRS) -> Iterator[tuple[Rows32, Rows32]]:
    """Yield (driving rows, sorted rows) that all bands and both windows allow, in bounded chunks."""
    driving, others = drive.driving, drive.sorted
    keys, rows = others.sorted_by(drive.column)
    (low, high), drivers = drive.runs()
    if not len(drivers) or not len(keys):
        return
    (newest, earliest), (other_newest, other_earliest) = driving.span(), others.span()
    all_in_window = newest <= other_earliest and other_newest <= earliest
    tests = drive.tests()
    i, q = 0, -1
    room = max(FIRST_PAIRS, 2 * len(drivers))
    while i < len(drivers):
        left, right, i, q = _scan(
            low, high, drivers, driving.times, driving.deadlines, driving.node.window_us,
            keys, rows, others.times, others.deadlines, others.node.window_us,
            all_in_window, *tests, i, q, min(room, chunk),
        )  # fmt: skip
        room *= 2
        if len(left):
            yield left, right


@njit(cache=True, nogil=True)
def _scan(
    low: Any,
    high: Any,
    drivers: Any,
    times: Any,
    deadlines: Any,
    window: int,
    keys: Any,
    rows: Any,
    other_times: Any,
    other_deadlines: Any,
    other_window: int,
    all_in_window: bool,
    test_low: Any,
    test_high: Any,
    test_keys: Any,
    first: int,
    resume: int,
    chunk: int,
) -> Any:
    """One chunk of pairs; returns them and where to go on: (driving position, sorted position or -1)."""
    left, right = np.empty(chunk, dtype=np.int32), np.empty(chunk, dtype=np.int32)
    found = 0
    run = np.searchsorted(keys, low[first])
    i = first
    while i < len(drivers):
        while run < len(keys) and keys[run] < low[i]:
            run += 1
        if run == len(keys):
            break
        a = drivers[i]
        time_a, deadline_a = times[a], deadlines[a] + window
        q = run if resume < 0 else resume
        resume = -1
        while q < len(keys) and keys[q] <= high[i]:
            b = rows[q]
            holds = all_in_window or (
                other_times[b] <= deadline_a and time_a <= other_deadlines[b] + other_window
            )
            for k in range(len(test_keys)):
                holds = holds and test_low[k, a] <= test_keys[k, b] <= test_high[k, a]
            if holds:
                if found == chunk:
                    return left, right, i, q
                left[found], right[found] = a, b
                found += 1
            q += 1
        i += 1
    return left[:found].copy(), right[:found].copy(), len(drivers), -1
