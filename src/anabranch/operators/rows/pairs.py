"""Kernels on the pairs that a probe has found: values at their rows, and those whose values agree.

Most probes of a batch find few pairs, so that the cost of a call counts as much as that of a pair.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

from anabranch.operators.rows.arrays import Int64s, Rows32


def take(values: Int64s, rows: Rows32, out: Int64s) -> None:
    """Put the values at some rows into `out`.

    >>> out = np.empty(3, dtype=np.int64)
    >>> take(np.array([5, 7, 9]), np.array([2, 0, 2], dtype=np.int32), out)
    >>> out.tolist()
    [9, 5, 9]
    """
    _take(values, rows, out)


def equal_pairs(
    left: tuple[Int64s, ...], left_rows: Rows32, right: tuple[Int64s, ...], right_rows: Rows32
) -> tuple[Rows32, Rows32]:
    """The pairs of rows that are equal in all of these columns; the same arrays when all pairs are.

    >>> rows = np.array([0, 1], dtype=np.int32)
    >>> [r.tolist() for r in equal_pairs((np.array([5, 7]),), rows, (np.array([5, 9]),), rows)]
    [[0], [0]]
    """
    ours, theirs = np.empty_like(left_rows), np.empty_like(right_rows)
    found = _equal(left, left_rows, right, right_rows, ours, theirs)
    return (left_rows, right_rows) if found == len(left_rows) else (ours[:found], theirs[:found])


@njit(cache=True, nogil=True)
def _take(values: Any, rows: Any, out: Any) -> None:
    for i in range(len(rows)):
        out[i] = values[rows[i]]


@njit(cache=True, nogil=True)
def _equal(left: Any, left_rows: Any, right: Any, right_rows: Any, ours: Any, theirs: Any) -> int:
    found = 0
    for i in range(len(left_rows)):
        a, b = left_rows[i], right_rows[i]
        agree = True
        for column in range(len(left)):
            agree = agree and left[column][a] == right[column][b]
        if agree:
            ours[found] = a
            theirs[found] = b
            found += 1
    return found
