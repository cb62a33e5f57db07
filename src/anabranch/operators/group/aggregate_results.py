"""From accumulators to values: how each aggregate function reads its summaries."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pyarrow as pa

from anabranch.operators.group.folds.partial_aggregate import (
    Accumulator,
    Count,
    ExactSum,
    FloatSum,
    Least,
    Moments,
    Summary,
    least_of,
)
from anabranch.operators.rows.arrays import Int64s
from anabranch.operators.rows.arrow_types import arrow_type
from anabranch.operators.rows.column_codes import EXACT_DIGITS, decimals, from_codes
from anabranch.plan.aggregate import NEED_WINDOW, AggregateColumn, is_bound

_MASK = np.int64(0xFFFFFFFF)
_HALF = np.int64(1 << 31)
_TEN_TO_38 = (np.int64(0x4B3B4CA85A86C47A), np.uint64(0x098A224000000000))
_SHORT = ("tinyint", "smallint", "int")
Accumulators = Mapping[Summary, Accumulator]


def summaries_of(aggregate: AggregateColumn) -> tuple[Summary, ...]:
    """What must be known of a window to compute the aggregate."""
    column = aggregate.column
    if aggregate.function in NEED_WINDOW or is_bound(aggregate.function):
        return ()
    if column is None:
        return (Count(None),)
    match aggregate.function:
        case "count":
            return (Count(column),)
        case "sum" | "avg":
            return (Count(column), _sum_of(aggregate))
        case "min" | "max":
            return (Count(column), _least(aggregate))
    return (Moments(column),)


def result_of(aggregate: AggregateColumn, known: Accumulators) -> pa.Array:
    """The aggregate's value for every window."""
    if aggregate.function == "count":
        return pa.array(known[Count(aggregate.column)])
    return _RESULTS[aggregate.function](aggregate, known)


def _sum_of(aggregate: AggregateColumn) -> Summary:
    assert aggregate.column is not None
    kind: Any = arrow_type(aggregate.argument_type)
    if pa.types.is_floating(kind):
        return FloatSum(aggregate.column)
    if pa.types.is_decimal(kind):
        return ExactSum(aggregate.column, 2 if kind.precision <= EXACT_DIGITS else 4)
    return ExactSum(aggregate.column, 1 if aggregate.argument_type in _SHORT else 2)


def _least(aggregate: AggregateColumn) -> Summary:
    assert aggregate.column is not None
    return least_of(
        aggregate.column, arrow_type(aggregate.argument_type), largest=aggregate.function == "max"
    )


def _sum(aggregate: AggregateColumn, known: Accumulators) -> pa.Array:
    missing = known[Count(aggregate.column)] == 0
    summary = _sum_of(aggregate)
    if isinstance(summary, FloatSum):
        return pa.array(known[summary], mask=missing)
    kind = arrow_type(aggregate.type)
    low, high, overflow = _words(known[summary])
    if not pa.types.is_decimal(kind):
        return pa.array(low, mask=missing | overflow | (high != low >> 63))
    too_big = overflow | _beyond_38_digits(low, high)
    return decimals(low, high, kind, missing=missing | too_big)


def _average(aggregate: AggregateColumn, known: Accumulators) -> pa.Array:
    count = known[Count(aggregate.column)]
    missing = count == 0
    divisor = np.where(missing, 1, count).astype(np.longdouble)
    summary = _sum_of(aggregate)
    total = known[summary]
    if not isinstance(summary, FloatSum):
        low, high, overflow = _words(total)
        total, missing = _extended(low, high), missing | overflow
        kind: Any = arrow_type(aggregate.argument_type)
        if pa.types.is_decimal(kind):
            divisor = divisor * np.longdouble(10.0) ** kind.scale
    return pa.array((total / divisor).astype(np.float64), mask=missing)


def _extreme(aggregate: AggregateColumn, known: Accumulators) -> pa.Array:
    summary = _least(aggregate)
    missing = known[Count(aggregate.column)] == 0
    kind = arrow_type(aggregate.type)
    if isinstance(summary, Least):
        codes = known[summary]
        return from_codes(~codes if summary.largest else codes, kind, missing=missing)
    (values,) = known[summary]
    return values.cast(kind) if pa.types.is_null(values.type) else values


def _variance(*, sample: bool, root: bool) -> Callable[[AggregateColumn, Accumulators], pa.Array]:
    def result(aggregate: AggregateColumn, known: Accumulators) -> pa.Array:
        assert aggregate.column is not None
        count, _, squares = known[Moments(aggregate.column)].T
        freedom = count - 1 if sample else count
        missing = freedom < 1
        variance = squares / np.where(missing, 1.0, freedom)
        return pa.array(np.sqrt(variance) if root else variance, mask=missing)

    return result


def _words(pieces: Int64s) -> tuple[Int64s, Int64s, Any]:
    """Low and high 64 bits of sums of pieces, and where 128 bits are not enough."""
    carried = [pieces[0]]
    for piece in pieces[1:]:
        carried.append(piece + (carried[-1] >> 32))
        carried[-2] = carried[-2] & _MASK
    if len(carried) == 1:
        return pieces[0], pieces[0] >> 63, np.zeros(len(pieces[0]), dtype=bool)
    if len(carried) == 2:
        low = (carried[1] << 32) | carried[0]
        return low, carried[1] >> 32, np.zeros(len(low), dtype=bool)
    overflow = (carried[3] < -_HALF) | (carried[3] >= _HALF)
    return (carried[1] << 32) | carried[0], (carried[3] << 32) | carried[2], overflow


def _beyond_38_digits(low: Int64s, high: Int64s) -> Any:
    """Whether |value| >= 10^38."""
    magnitude_low, magnitude_high = _magnitude(low, high)
    top_high, top_low = _TEN_TO_38
    return (magnitude_high > top_high) | ((magnitude_high == top_high) & (magnitude_low >= top_low))


def _extended(low: Int64s, high: Int64s) -> Any:
    """The value in extended precision, in which DuckDB divides too."""
    magnitude_low, magnitude_high = _magnitude(low, high)
    magnitude = magnitude_high.astype(np.longdouble) * np.longdouble(2.0) ** 64 + magnitude_low
    return np.where(high < 0, -magnitude, magnitude)


def _magnitude(low: Int64s, high: Int64s) -> tuple[Any, Any]:
    """Low (unsigned) and high 64 bits of the absolute value of numbers in two's complement."""
    negative = high < 0
    magnitude_high = np.where(negative, ~high + (low == 0), high)
    return np.where(negative, -low, low).view(np.uint64), magnitude_high


_RESULTS: dict[str, Callable[[AggregateColumn, Accumulators], pa.Array]] = {
    "sum": _sum,
    "avg": _average,
    "min": _extreme,
    "max": _extreme,
    "stddev_samp": _variance(sample=True, root=True),
    "stddev_pop": _variance(sample=False, root=True),
    "var_samp": _variance(sample=True, root=False),
    "var_pop": _variance(sample=False, root=False),
}
