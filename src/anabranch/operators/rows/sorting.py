"""Integers in ascending order, and the rows they come from; equal ones stay in the order they have.

Hashes are spread evenly. Put into half as many buckets as there are of them, hardly any is out of place, and
a step or two brings it there. Times and numbers may crowd into few buckets: that shows in the steps, and
they are sorted by one digit after the other instead. NumPy's sort takes three to eight times as long as the
former, and its stable argsort two to four times as long as the latter.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

from anabranch.operators.rows.arrays import Int64s, Rows32, read_only

BUCKET_ROWS = 2
"""Rows of a bucket, on average."""
LEAST_BITS, MOST_BITS = 8, 18
"""Of the number of a bucket: where each begins should stay in the cache."""
STEPS = 4
"""Steps per row after which values are too crowded for buckets."""
DIGIT_BITS, DIGITS = 11, 6
"""So many make 64 bits."""
_POSITIONS = np.empty(0, dtype=np.int32)
"""Instead of rows, where these are the positions themselves."""


def ascending(values: Int64s, rows: Rows32 | None = None) -> tuple[Int64s, Rows32]:
    """The values in ascending order, and the row of each: its position, or what stands there in `rows`.

    >>> [found.tolist() for found in ascending(np.array([5, -3, 5, 2**62, -3]))]
    [[-3, -3, 5, 5, 4611686018427387904], [1, 4, 0, 2, 3]]
    """
    values = read_only(values)
    if _is_ascending(values):
        return values, np.arange(len(values), dtype=np.int32) if rows is None else rows
    origins = _POSITIONS if rows is None else rows
    lowest = values.min()
    span = int(values.max()) - int(lowest)
    bits = min(max((len(values) // BUCKET_ROWS).bit_length(), LEAST_BITS), MOST_BITS)
    shift = max(0, span.bit_length() - bits)
    found = _by_buckets(values, origins, lowest, shift, (span >> shift) + 1)
    keys, rows = _by_digits(values, origins, lowest) if found is None else found
    keys.flags.writeable = False  # kernels will only read them: see `read_only`
    return keys, rows


@njit(cache=True, nogil=True)
def _is_ascending(values: Any) -> bool:
    for i in range(1, len(values)):  # noqa: SIM110 - Numba has no generators in `all`
        if values[i] < values[i - 1]:
            return False
    return True


@njit(cache=True, nogil=True)
def _by_buckets(values: Any, origins: Any, lowest: Any, shift: int, buckets: int) -> Any:
    """Values and rows, or None if it would take too many steps."""
    keys, rows = np.empty_like(values), np.empty(len(values), dtype=np.int32)
    starts = np.zeros(buckets + 1, dtype=np.int32)
    for value in values:
        starts[((np.uint64(value) - np.uint64(lowest)) >> np.uint64(shift)) + np.uint64(1)] += 1
    for bucket in range(buckets):
        starts[bucket + 1] += starts[bucket]
    for i in range(len(values)):
        its = (np.uint64(values[i]) - np.uint64(lowest)) >> np.uint64(shift)
        at = starts[its]
        starts[its] = at + 1
        keys[at], rows[at] = values[i], origins[i] if len(origins) else i
    steps = 0
    for i in range(1, len(keys)):
        key, row = keys[i], rows[i]
        j = i
        while j and keys[j - 1] > key:
            keys[j], rows[j] = keys[j - 1], rows[j - 1]
            j -= 1
        keys[j], rows[j] = key, row
        steps += i - j
        if steps > STEPS * len(keys):
            return None
    return keys, rows


@njit(cache=True, nogil=True)
def _by_digits(values: Any, origins: Any, lowest: Any) -> Any:
    """Values and rows, by their lowest digit, then by the next, and so on."""
    mask = np.uint64((1 << DIGIT_BITS) - 1)
    counts = np.zeros((DIGITS, 1 << DIGIT_BITS), dtype=np.int32)
    for value in values:
        key = np.uint64(value) - np.uint64(lowest)
        for digit in range(DIGITS):
            counts[digit, key & mask] += 1
            key >>= np.uint64(DIGIT_BITS)
    keys, rows = values.copy(), origins.copy() if len(origins) else np.arange(len(values), dtype=np.int32)
    next_keys, next_rows = np.empty_like(values), np.empty_like(rows)
    for digit in range(DIGITS):
        starts, shift = counts[digit], np.uint64(DIGIT_BITS * digit)
        if starts.max() == len(values):  # the same everywhere
            continue
        at = 0
        for i in range(len(starts)):
            starts[i], at = at, at + starts[i]
        for i in range(len(keys)):
            found = (np.uint64(keys[i]) - np.uint64(lowest)) >> shift & mask
            next_keys[starts[found]], next_rows[starts[found]] = keys[i], rows[i]
            starts[found] += 1
        keys, rows, next_keys, next_rows = next_keys, next_rows, keys, rows
    return keys, rows
