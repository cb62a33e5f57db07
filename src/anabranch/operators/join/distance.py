"""The distance kernel: pairs of vectors no further apart than given, whose windows overlap.

Candidates come from a product of matrices, block by block: the square of a distance is |x|² + |y|² - 2xy.
Its rounding is bounded (Higham, Accuracy and Stability of Numerical Algorithms, section 3.1), and so much is
allowed beyond the largest distance. The definition decides about each candidate: differences, squared, added
from left to right in doubles.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from numba import njit

from anabranch.operators.rows.arrays import Int64s, Rows32
from anabranch.operators.rows.order_keys import Doubles, doubles
from anabranch.operators.rows.row_set import RowSet
from anabranch.plan.nodes import Operand

BLOCK_ROWS, BLOCK_OTHERS = 256, 1024
"""Of one product: it should stay in the cache."""
GATHERED = 1 << 16
"""Pairs that are handed on together, at least."""
LARGEST_SINGLE, LARGEST_DOUBLE = 1e15, 1e150
"""Lengths of vectors whose squares stay finite in products of each type."""
_SMALLEST = {np.dtype(np.float32): 1e-37, np.dtype(np.float64): 1e-307}
"""What a product may lose because it is too small for its type."""
Matrix = npt.NDArray[np.floating[Any]]


@dataclass(frozen=True, slots=True)
class Vectors:
    """The vectors of one side, and the windows of their rows."""

    values: Doubles
    """One row for each vector. Those with NULL, NaN or an infinite number are left out: near to none."""
    rows: Rows32
    times: Int64s
    deadlines: Int64s

    @classmethod
    def of(cls, rows: RowSet, node: Operand, columns: tuple[str, ...]) -> Vectors:
        # Kept rows are met in every batch: their columns are put together once.
        names = "vectors", *(node.names[c] for c in columns)
        values, finite = rows.derived(names, lambda: _finite(vectors(rows, node, columns)))
        times, deadlines = rows.int64s(node.max_time), rows.int64s(node.deadline)
        return cls(values, finite, times[finite], deadlines[finite] + node.window_us)


def _finite(values: Doubles) -> tuple[Doubles, Rows32]:
    """Vectors of finite numbers, and where they are."""
    finite = np.flatnonzero(np.isfinite(values).all(axis=1)).astype(np.int32)
    return (values if len(finite) == len(values) else values[finite]), finite


def vectors(rows: RowSet, node: Operand, columns: tuple[str, ...]) -> Doubles:
    """One row for each row, with NaN for NULL."""
    return np.column_stack([doubles(rows.batch.column(node.names[c])) for c in columns])


def distance_match(ours: Vectors, theirs: Vectors, most: float) -> Iterator[tuple[Rows32, Rows32]]:
    """Yield (rows of ours, rows of theirs) whose distance is at most `most`, and whose windows overlap."""
    if not len(ours.rows) or not len(theirs.rows) or most < 0:
        return
    centre = theirs.values.mean(axis=0) if np.abs(theirs.values).max() < LARGEST_DOUBLE else 0.0
    left, right = ours.values - centre, theirs.values - centre
    kind = _kind(left, right)
    gathered: list[tuple[Rows32, Rows32]] = []
    count = 0
    for i in range(0, len(left), BLOCK_ROWS):
        block = slice(i, i + BLOCK_ROWS)
        for j in range(0, len(right), BLOCK_OTHERS):
            others = slice(j, j + BLOCK_OTHERS)
            found = _verified(
                *_candidates(left[block], right[others], most, kind),
                ours.values[block], ours.times[block], ours.deadlines[block],
                theirs.values[others], theirs.times[others], theirs.deadlines[others],
                most,
            )  # fmt: skip
            if len(found[0]):
                gathered.append((ours.rows[block][found[0]], theirs.rows[others][found[1]]))
                count += len(found[0])
            if count >= GATHERED:
                yield _joined(gathered)
                gathered, count = [], 0
    if gathered:
        yield _joined(gathered)


def _joined(gathered: list[tuple[Rows32, Rows32]]) -> tuple[Rows32, Rows32]:
    return np.concatenate([pair[0] for pair in gathered]), np.concatenate([pair[1] for pair in gathered])


def _kind(left: Doubles, right: Doubles) -> np.dtype[Any] | None:
    """The type of products that cannot overflow; None if there is none."""
    largest = max(float(np.abs(left).max()), float(np.abs(right).max())) * left.shape[1]
    if largest > LARGEST_DOUBLE:
        return None
    return np.dtype(np.float32 if largest < LARGEST_SINGLE else np.float64)


def _candidates(
    left: Doubles, right: Doubles, most: float, kind: np.dtype[Any] | None
) -> tuple[Rows32, Rows32]:
    """Positions of pairs that may be near enough."""
    if kind is None:
        shape = len(left), len(right)
        rows, others = (positions.ravel().astype(np.int32) for positions in np.indices(shape))
        return rows, others
    lengths, other_lengths = ((side * side).sum(axis=1) for side in (left, right))
    ones = np.ones((len(left), 1)), np.ones((len(right), 1))
    extended = np.hstack([left, lengths[:, None], ones[0]]).astype(kind)
    others = np.hstack([-2 * right, ones[1], other_lengths[:, None]]).astype(kind)
    reach = float(np.sqrt(lengths.max()) + np.sqrt(other_lengths.max())) ** 2
    # (d + 2) products and sums, and the rounding of every number to its type; twice that to be sure.
    terms = left.shape[1] + 16
    slack = terms * (reach * float(np.finfo(kind).eps) + _SMALLEST[kind])
    rows, positions = _at_most(extended @ others.T, most * most * (1 + 1e-12) + 2 * slack)
    return rows, positions


@njit(cache=True, nogil=True)
def _at_most(squares: Any, bound: float) -> Any:
    """Positions of numbers that are not larger than a bound."""
    counts = np.zeros(len(squares), dtype=np.int32)
    limit = squares.dtype.type(bound)
    total = 0
    for i in range(len(squares)):
        row = squares[i]
        count = 0
        for j in range(len(row)):
            count += row[j] <= limit
        counts[i] = count
        total += count
    rows, others = np.empty(total, dtype=np.int32), np.empty(total, dtype=np.int32)
    found = 0
    for i in range(len(squares)):
        if counts[i]:
            row = squares[i]
            for j in range(len(row)):
                if row[j] <= limit:
                    rows[found], others[found] = i, j
                    found += 1
    return rows, others


@njit(cache=True, nogil=True)
def _verified(
    rows: Any,
    others: Any,
    left: Any,
    times: Any,
    deadlines: Any,
    right: Any,
    other_times: Any,
    other_deadlines: Any,
    most: float,
) -> Any:
    """The candidates that are near enough by definition, and inside each other's windows."""
    found = 0
    for k in range(len(rows)):
        i, j = rows[k], others[k]
        if other_times[j] > deadlines[i] or times[i] > other_deadlines[j]:
            continue
        if _distance(left, i, right, j) <= most:
            rows[found], others[found] = i, j
            found += 1
    return rows[:found], others[:found]


@njit(cache=True, nogil=True)
def are_near(rows: Any, others: Any, left: Any, right: Any, most: float) -> Any:
    """Which pairs of rows are near enough by definition."""
    near = np.empty(len(rows), dtype=np.bool_)
    for k in range(len(rows)):
        near[k] = _distance(left, rows[k], right, others[k]) <= most
    return near


@njit(cache=True, nogil=True)
def _distance(left: Any, i: int, right: Any, j: int) -> Any:
    """The definition, as `l2_distance` is written in SQL."""
    total = 0.0
    for d in range(left.shape[1]):
        difference = left[i, d] - right[j, d]
        total += difference * difference
    return np.sqrt(total)
