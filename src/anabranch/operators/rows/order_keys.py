"""Values as 64-bit integers of the same order, so that one kernel compares and sorts them all.

Doubles are ordered as queries order them: -0.0 is 0.0, and NaN is larger than all others::

    -inf  …  -1.0  …  0.0  …  1.0  …  inf  NaN
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from anabranch.operators.rows.arrays import Int64s

Doubles = npt.NDArray[np.float64]

_MAGNITUDE = np.int64(0x7FFF_FFFF_FFFF_FFFF)
_DOUBLE = pa.float64()
_MICROSECONDS = pa.timestamp("us")


def order_keys(column: pa.Array) -> Int64s:
    """The integers of a column; behind NULL is any."""
    kind = column.type
    if pa.types.is_floating(kind):
        return keys_of_doubles(doubles(column))
    if pa.types.is_decimal(kind):
        return _unscaled(column.cast(pa.decimal128(18, kind.scale)))
    if pa.types.is_timestamp(kind):
        column = column.cast(pa.timestamp("us", kind.tz)).view(pa.int64())
    elif pa.types.is_date(kind):
        column = column.cast(pa.date32()).view(pa.int32())
    column = column.cast(pa.int64())
    filled = pc.fill_null(column, 0) if column.null_count else column
    keys: Int64s = filled.to_numpy(zero_copy_only=True)
    return keys


def doubles(column: pa.Array) -> Doubles:
    """A column of floating-point numbers as NumPy; NULL is NaN."""
    if column.type != _DOUBLE:  # a cast to the same type takes longer than many a column
        column = column.cast(_DOUBLE)
    values: Doubles = column.to_numpy(zero_copy_only=False)
    return values


def keys_of_doubles(values: Doubles) -> Int64s:
    """Integers of the order that queries have for doubles.

    >>> keys_of_doubles(np.array([-0.0, 0.0, 5e-324, -5e-324])).tolist()
    [0, 0, 1, -1]
    """
    positive = np.where(np.isnan(values), np.nan, values + 0.0)  # of all NaNs one, and no -0.0
    bits = positive.view(np.int64)
    return np.where(bits < 0, -(bits & _MAGNITUDE), bits)


def doubles_of_keys(keys: Int64s) -> Doubles:
    """The doubles again.

    >>> doubles_of_keys(keys_of_doubles(np.array([-1.5, -np.inf, 3.0]))).tolist()
    [-1.5, -inf, 3.0]
    """
    bits = np.where(keys < 0, np.int64(-(2**63)) | -keys, keys)
    return bits.view(np.float64)


def _unscaled(column: pa.Array) -> Int64s:
    """Decimals of up to 18 digits without their point: the lower half of their 128 bits."""
    halves = np.frombuffer(column.buffers()[1], dtype=np.int64)
    low: Int64s = halves[0::2][column.offset : column.offset + len(column)]
    return np.ascontiguousarray(low)
