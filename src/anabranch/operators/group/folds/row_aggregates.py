"""Aggregates that look at the rows of a window: distinct values, percentiles, the value of the best row.

Windows are ranges of positions in one set of rows, and may overlap: each takes a copy of its rows.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa

from anabranch.operators.group.folds.window_bounds import Ranges, positions_in
from anabranch.operators.rows.arrays import Int64s
from anabranch.operators.rows.column_codes import has_codes, ranks, to_codes, validity
from anabranch.operators.rows.row_set import RowSet
from anabranch.plan.aggregate import AggregateColumn


@dataclass(frozen=True, slots=True)
class Contents:
    """The rows of windows, window by window."""

    rows: RowSet
    position: Int64s
    window: Int64s
    windows: int

    @classmethod
    def of(cls, rows: RowSet, ranges: Ranges) -> Contents:
        numbers = np.repeat(np.arange(len(ranges.starts)), ranges.ends - ranges.starts)
        return cls(rows, positions_in(ranges.starts, ranges.ends), numbers, len(ranges.starts))


def row_result(aggregate: AggregateColumn, contents: Contents) -> pa.Array:
    """The aggregate's value for every window."""
    return _RESULTS[aggregate.function](aggregate, contents)


def _count_distinct(aggregate: AggregateColumn, contents: Contents) -> pa.Array:
    window, codes, _ = _known(contents, aggregate.column)
    order = np.lexsort((codes, window))
    window, codes = window[order], codes[order]
    new = np.ones(len(window), dtype=bool)
    new[1:] = (window[1:] != window[:-1]) | (codes[1:] != codes[:-1])
    return pa.array(np.bincount(window[new], minlength=contents.windows))


def _percentile(aggregate: AggregateColumn, contents: Contents) -> pa.Array:
    """Between the two values nearest to the place `parameter` of the way through the sorted values."""
    assert aggregate.parameter is not None
    assert aggregate.column is not None
    window, codes, position = _known(contents, aggregate.column)
    order = np.lexsort((codes, window))
    counts = np.bincount(window, minlength=contents.windows)
    missing = counts == 0
    if missing.all():
        return pa.nulls(contents.windows, pa.float64())
    column = contents.rows.batch.column(aggregate.column).cast(pa.float64())
    values: Any = column.fill_null(0.0).to_numpy(zero_copy_only=False)[position[order]]
    place = aggregate.parameter * np.maximum(counts - 1, 0)
    below = np.floor(place).astype(np.int64)
    first = np.minimum(np.cumsum(counts) - counts, len(values) - 1)
    low = values[np.where(missing, 0, first + below)]
    high = values[np.where(missing, 0, first + np.ceil(place).astype(np.int64))]
    with np.errstate(invalid="ignore"):
        between = low * (1 - (place - below)) + high * (place - below)
    return pa.array(np.where((place == below) | (low == high), low, between), mask=missing)


def _best(aggregate: AggregateColumn, contents: Contents) -> pa.Array:
    assert aggregate.column is not None
    return contents.rows.batch.column(aggregate.column).take(best_rows(aggregate, contents))


def best_rows(aggregate: AggregateColumn, contents: Contents) -> pa.Array:
    """Per window the position of the row that max_by or min_by chooses; NULL where there is none.

    Of the rows that are best by one column it has the largest or least value, and NULL only if there is no
    other.
    """
    assert aggregate.column is not None
    largest = aggregate.function == "max_by"
    window, by, position = _known(contents, aggregate.by)
    null = ~validity(contents.rows.batch.column(aggregate.column))[position]
    codes = _codes(contents.rows, aggregate.column)[position]
    order = np.lexsort((codes, null != largest, by, window))
    found = np.bincount(window, minlength=contents.windows)
    bounds = np.cumsum(found)
    missing = found == 0
    if missing.all():
        return pa.nulls(contents.windows, pa.int64())
    best = np.where(missing, 0, bounds - 1 if largest else bounds - found)
    return pa.array(position[order][best], mask=missing)


def stored_best(aggregate: AggregateColumn) -> AggregateColumn:
    """The same of the best rows of parts of a window: of columns that hold their values."""
    name = f"#{aggregate.function}({aggregate.column}, {aggregate.by})"
    return replace(aggregate, column=f"{name}.value", by=f"{name}.by")


def _known(contents: Contents, name: str | None) -> tuple[Int64s, Int64s, Int64s]:
    """Window, code and position of the rows where a column is not NULL."""
    assert name is not None
    column = contents.rows.batch.column(name)
    known = validity(column)[contents.position]
    position = contents.position[known]
    return contents.window[known], _codes(contents.rows, name)[position], position


def _codes(rows: RowSet, name: str) -> Int64s:
    """Numbers in the order of a column's values."""

    def made() -> Int64s:
        column = rows.batch.column(name)
        return to_codes(column) if has_codes(column.type) else ranks(column)[0]

    return rows.derived(("order", name), made)


_RESULTS: dict[str, Callable[[AggregateColumn, Contents], pa.Array]] = {
    "count_distinct": _count_distinct,
    "percentile": _percentile,
    "max_by": _best,
    "min_by": _best,
}
