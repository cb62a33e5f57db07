"""Columns as numbers that keep order and equality, so that kernels need to know one type only."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from numba import njit

from anabranch.operators.rows.arrays import Int64s

_SIGN = np.int64(-(2**63))
EXACT_DIGITS = 18
"""Digits of a decimal whose unscaled value always fits 64 bits."""

Flags = npt.NDArray[np.bool_]


def has_codes(kind: pa.DataType) -> bool:
    """Whether values of this type fit 64 bits; text, binary and long decimals do not."""
    if pa.types.is_decimal(kind):
        return bool(kind.precision <= EXACT_DIGITS)
    return bool(pa.types.is_primitive(kind))


def to_codes(column: pa.Array) -> Int64s:
    """One integer per value that compares as the value does; NULL gives any.

    -0.0 equals 0.0, and all NaN are equal and above every other number, as in Spark and DuckDB.
    """
    kind = column.type
    if pa.types.is_decimal(kind):
        return decimal_words(column)[0].copy()
    if pa.types.is_floating(kind):
        return _float_codes(column.cast(pa.float64()))
    if pa.types.is_date32(kind):
        column = column.cast(pa.int32())
    filled = column.cast(pa.int64())
    filled = filled.fill_null(0) if filled.null_count else filled
    codes: Int64s = filled.to_numpy(zero_copy_only=False)
    return codes


def from_codes(codes: Int64s, kind: pa.DataType, *, missing: Flags) -> pa.Array:
    """The values behind codes, NULL where `missing`."""
    if pa.types.is_decimal(kind):
        return decimals(codes, codes >> 63, kind, missing=missing)
    if pa.types.is_floating(kind):
        bits = np.where(codes < 0, ~codes ^ _SIGN, codes)
        return pa.array(bits.view(np.float64), mask=missing).cast(kind)
    if pa.types.is_boolean(kind):
        return pa.array(codes != 0, mask=missing)
    values = pa.array(np.where(missing, 0, codes), mask=missing)
    return values.cast(pa.int32()).cast(kind) if pa.types.is_date32(kind) else values.cast(kind)


def decimal_words(column: pa.Array) -> tuple[Int64s, Int64s]:
    """Low and high 64 bits of a decimal's unscaled values; 0 for NULL."""
    column = column.fill_null(pa.scalar(Decimal(0), column.type)) if column.null_count else column
    if not len(column):
        return np.empty(0, np.int64), np.empty(0, np.int64)
    words = np.frombuffer(column.buffers()[1], dtype=np.int64)
    words = words[2 * column.offset : 2 * (column.offset + len(column))].reshape(-1, 2)
    return words[:, 0], words[:, 1]


def decimals(low: Int64s, high: Int64s, kind: pa.DataType, *, missing: Flags) -> pa.Array:
    """Decimals from the low and high 64 bits of their unscaled values."""
    words = np.stack([low, high], axis=1)
    valid = pa.py_buffer(np.packbits(~missing, bitorder="little").tobytes())
    return pa.Array.from_buffers(kind, len(low), [valid, pa.py_buffer(words.tobytes())])


def validity(column: pa.Array) -> Flags:
    """Which values are not NULL."""
    flags: Flags = column.is_valid().to_numpy(zero_copy_only=False)
    return flags


def ranks(column: pa.Array) -> tuple[Int64s, pa.Array]:
    """Each value's place among the column's distinct values, and these in ascending order.

    For types without codes; NULL gives any place.
    """
    encoded = column.dictionary_encode()
    order = pc.sort_indices(encoded.dictionary)
    place = np.empty(len(order), dtype=np.int64)
    place[order.to_numpy()] = np.arange(len(order))
    indices = encoded.indices.fill_null(0).to_numpy(zero_copy_only=False)
    found: Int64s = place[indices] if len(order) else np.zeros(len(column), dtype=np.int64)
    return found, encoded.dictionary.take(order)


def _float_codes(column: pa.Array) -> Int64s:
    filled = column.fill_null(0.0) if column.null_count else column  # filling nothing is slow, too
    found: Int64s = _double_codes(filled.to_numpy(zero_copy_only=True).view(np.int64))
    return found


@njit(cache=True, nogil=True)
def _double_codes(bits: Any) -> Any:
    """Codes of the bits of numbers, in one pass."""
    codes = np.empty(len(bits), dtype=np.int64)
    infinite = np.int64(0x7FF0000000000000)
    magnitude = np.int64(0x7FFFFFFFFFFFFFFF)
    for i in range(len(bits)):
        value = bits[i]
        size = value & magnitude
        if size > infinite:  # all NaN are one
            codes[i] = np.int64(0x7FF8000000000000)
        elif size == 0:  # -0.0 is 0.0
            codes[i] = 0
        else:
            codes[i] = value if value >= 0 else ~size
    return codes
