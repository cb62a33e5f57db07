"""Partial aggregates: what a block knows of ranges of its rows, and how blocks add up.

Each class is one summary of one column. It is built once per block, kept with the block by the
worker, and then folds any number of ranges of positions into an accumulator. Folding several blocks
into one accumulator is how a window that spans them is computed. Counts and exact sums are differences
of prefix sums; what cannot be subtracted without loss is folded (`range_fold`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from anabranch.operators.group.folds.prefix_sums import add_ranges, prefix_sums, sums_of_halves
from anabranch.operators.group.folds.range_fold import FOLDED, Folded, minimum_of, moments_of, sum_of
from anabranch.operators.group.folds.sliding_fold import NOTHING
from anabranch.operators.group.folds.window_bounds import Ranges, Runs
from anabranch.operators.rows.arrays import Int64s
from anabranch.operators.rows.column_codes import decimal_words, has_codes, ranks, to_codes, validity
from anabranch.operators.rows.row_set import RowSet

_LOW = np.int64(0xFFFFFFFF)
_TYPICAL_TEXT = 24
"""Bytes of a value that is not a number, with its offset; how long it is the plan does not know."""
Accumulator = Any
"""Arrays with one entry per window; each summary knows its own."""


class Summary(Protocol):
    """A mergeable aggregate of one column."""

    @property
    def bytes_per_row(self) -> int:
        """Most that is kept of a block, beside its rows."""

    def empty(self, windows: int) -> Accumulator:
        """The aggregate of no rows, for so many windows."""

    def fold(self, rows: RowSet, ranges: Ranges, into: Accumulator) -> None:
        """Add the rows of every range to its window."""


@dataclass(frozen=True, slots=True)
class Count:
    """Rows where the column is not NULL; all rows without a column."""

    column: str | None

    @property
    def bytes_per_row(self) -> int:
        return 0 if self.column is None else 8

    def empty(self, windows: int) -> Int64s:
        return np.zeros(windows, dtype=np.int64)

    def fold(self, rows: RowSet, ranges: Ranges, into: Int64s) -> None:
        if self.column is None or not rows.batch.column(self.column).null_count:
            into += ranges.ends - ranges.starts
            return
        column = rows.batch.column(self.column)
        counted = rows.derived(self, lambda: prefix_sums(validity(column).astype(np.int64)))
        add_ranges(counted, ranges.starts, ranges.ends, into)


@dataclass(frozen=True, slots=True)
class ExactSum:
    """Sum of integers or decimals, in pieces of 32 bits whose sums cannot overflow.

    The value is the sum of piece i times 2^(32 i); the last piece carries the sign.
    """

    column: str
    pieces: int

    @property
    def bytes_per_row(self) -> int:
        return 8 * self.pieces

    def empty(self, windows: int) -> Int64s:
        return np.zeros((self.pieces, windows), dtype=np.int64)

    def fold(self, rows: RowSet, ranges: Ranges, into: Int64s) -> None:
        sums = rows.derived(self, lambda: self._sums(rows.batch.column(self.column)))
        for piece, prefix in enumerate(sums):
            add_ranges(prefix, ranges.starts, ranges.ends, into[piece])

    def _sums(self, column: pa.Array) -> list[Int64s]:
        if pa.types.is_decimal(column.type):
            low, high = decimal_words(column)
            words = [low, high] if self.pieces == 4 else [low]
        else:
            known = column.fill_null(0) if column.null_count else column  # filling nothing is slow, too
            words = [known.cast(pa.int64()).to_numpy(zero_copy_only=False)]
        if self.pieces == 1:
            return [prefix_sums(words[0])]
        pieces = [piece for word in words[:-1] for piece in (word & _LOW, (word >> 32) & _LOW)]
        return [*map(prefix_sums, pieces), *sums_of_halves(words[-1])]


@dataclass(frozen=True, slots=True)
class FloatSum:
    """Sum of floating numbers: exact up to rounding."""

    column: str

    @property
    def bytes_per_row(self) -> int:
        return FOLDED * 8

    def empty(self, windows: int) -> Any:
        return np.zeros(windows, dtype=np.float64)

    def fold(self, rows: RowSet, ranges: Ranges, into: Any) -> None:
        rows.derived(self, lambda: sum_of(_floats(rows, self.column), Runs.of(rows))).fold(ranges, into)


@dataclass(frozen=True, slots=True)
class Moments:
    """Count, mean and squared distances, for variances."""

    column: str

    @property
    def bytes_per_row(self) -> int:
        return FOLDED * 3 * 8

    def empty(self, windows: int) -> Any:
        return np.zeros((windows, 3), dtype=np.float64)

    def fold(self, rows: RowSet, ranges: Ranges, into: Any) -> None:
        rows.derived(self, lambda: self._moments(rows)).fold(ranges, into)

    def _moments(self, rows: RowSet) -> Folded:
        known = validity(rows.batch.column(self.column))
        return moments_of(_floats(rows, self.column), known, Runs.of(rows))


@dataclass(frozen=True, slots=True)
class Least:
    """Code of the least value, or of the largest as the complement of the least complement."""

    column: str
    largest: bool

    @property
    def bytes_per_row(self) -> int:
        return FOLDED * 8

    def empty(self, windows: int) -> Int64s:
        return np.full(windows, NOTHING, dtype=np.int64)

    def fold(self, rows: RowSet, ranges: Ranges, into: Int64s) -> None:
        rows.derived(self, lambda: self._minimum(rows)).fold(ranges, into)

    def _minimum(self, rows: RowSet) -> Folded:
        column = rows.batch.column(self.column)
        return minimum_of(_ordered(to_codes(column), column, largest=self.largest), Runs.of(rows))


@dataclass(frozen=True, slots=True)
class LeastWide:
    """The least or largest value of a type without codes: by rank in a block, by value across blocks."""

    column: str
    largest: bool

    @property
    def bytes_per_row(self) -> int:
        return FOLDED * 8 + _TYPICAL_TEXT

    def empty(self, windows: int) -> list[pa.Array]:
        return [pa.nulls(windows)]

    def fold(self, rows: RowSet, ranges: Ranges, into: list[pa.Array]) -> None:
        places, values = rows.derived(self, lambda: self._ranked(rows))
        found = np.full(len(ranges.starts), NOTHING, dtype=np.int64)
        places.fold(ranges, found)
        missing = found == NOTHING
        ranked = ~found if self.largest else found
        mine = values.take(pa.array(np.where(missing, 0, ranked), mask=missing))
        known = into[0]
        if pa.types.is_null(known.type):
            into[0] = mine
        else:
            into[0] = (pc.max_element_wise if self.largest else pc.min_element_wise)(known, mine)

    def _ranked(self, rows: RowSet) -> tuple[Folded, pa.Array]:
        column = rows.batch.column(self.column)
        places, values = ranks(column)
        return minimum_of(_ordered(places, column, largest=self.largest), Runs.of(rows)), values


def least_of(column: str, kind: pa.DataType, *, largest: bool) -> Summary:
    """The summary behind MIN and MAX of a column."""
    return Least(column, largest) if has_codes(kind) else LeastWide(column, largest)


def _ordered(codes: Int64s, column: pa.Array, *, largest: bool) -> Int64s:
    """Codes whose minimum is wanted, with NULL behind all others."""
    wanted = ~codes if largest else codes
    return np.where(validity(column), wanted, NOTHING) if column.null_count else wanted


def _floats(rows: RowSet, column: str) -> Any:
    values = rows.batch.column(column).cast(pa.float64())
    return (values.fill_null(0.0) if values.null_count else values).to_numpy(zero_copy_only=False)
