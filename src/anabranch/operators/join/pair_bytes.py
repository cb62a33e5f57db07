"""How large the rows of pairs will be, before they are made: pairs are cut where text would be too much."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from anabranch.operators.rows.arrays import Int64s, Rows32
from anabranch.operators.rows.row_set import RowSet

_NUMBER = 8
_HIDDEN = 2 * _NUMBER
"""On either side, of hash, newest time and deadline."""


class Pairs(NamedTuple):
    """Rows of two sets that have met."""

    left: RowSet
    left_rows: Rows32
    right: RowSet
    right_rows: Rows32

    def slice(self, start: int, end: int) -> Pairs:
        return Pairs(self.left, self.left_rows[start:end], self.right, self.right_rows[start:end])


def cut_pairs(
    pairs: Pairs, left: tuple[str, ...], right: tuple[str, ...], *, most: int
) -> Iterator[tuple[Pairs, int]]:
    """The pairs in parts whose rows take up no more than some bytes, or are single; each with its bytes.

    One text may meet a million rows, so that averages say nothing. The longest one of every column says
    that most pairs need not be looked at.

    Parameters
    ----------
    left, right
        Columns that rows take from either side.
    """
    largest = len(pairs.left_rows) * (_widest(pairs.left, left) + _widest(pairs.right, right))
    if largest <= most:
        yield pairs, largest
        return
    ends = np.cumsum(
        _widths(pairs.left, left, pairs.left_rows) + _widths(pairs.right, right, pairs.right_rows)
    )
    cuts = np.flatnonzero(np.diff((ends - 1) // most)) + 1
    starts = [0, *cuts.tolist(), len(ends)]
    for start, end in pairwise(starts):
        yield pairs.slice(start, end), int(ends[end - 1] - (ends[start - 1] if start else 0))


def _widest(rows: RowSet, names: tuple[str, ...]) -> int:
    """Bytes of the largest values of some columns together."""
    return rows.derived(("widest", names), lambda: _HIDDEN + sum(_largest(rows.batch, n) for n in names))


def _largest(rows: pa.RecordBatch, name: str) -> int:
    fixed = _fixed(rows.schema.field(name).type)
    if fixed is not None:
        return fixed
    return _NUMBER + int(pc.max(pc.binary_length(rows.column(name))).as_py() or 0)


def _widths(rows: RowSet, names: Sequence[str], at: Rows32) -> Int64s:
    """Bytes of the values of some columns at each of some rows."""
    widths = np.full(len(at), _HIDDEN)
    for name in names:
        column = rows.batch.column(name)
        fixed = _fixed(column.type)
        if fixed is not None:
            widths += fixed
            continue
        lengths = pc.binary_length(column)
        filled = pc.fill_null(lengths, 0) if lengths.null_count else lengths
        widths += _NUMBER + filled.to_numpy(zero_copy_only=False)[at]
    return widths


def _is_text(kind: pa.DataType) -> bool:
    return bool(
        pa.types.is_large_string(kind)
        or pa.types.is_large_binary(kind)
        or pa.types.is_string(kind)
        or pa.types.is_binary(kind)
    )


@lru_cache(maxsize=256)
def _fixed(kind: pa.DataType) -> int | None:
    """Bytes of every value of a type; None of text."""
    if _is_text(kind):
        return None
    try:
        return max(1, int(kind.bit_width) // 8)
    except ValueError:  # of no fixed width: none of ours
        return _NUMBER
