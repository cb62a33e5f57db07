"""The distance kernel: pairs of vectors no further apart than given, whose windows overlap.

Candidates come from a product of matrices, block by block: two vectors are near where x·y - |x|²/2 - |y|²/2
is at least -d²/2. Its rounding is bounded (Higham, Accuracy and Stability of Numerical Algorithms, section
3.1), and so much is allowed beyond the largest distance. The definition decides about each candidate:
differences, squared, added from left to right in doubles.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
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
SAMPLE = 256
"""Vectors by which a centre is chosen."""
GATHERED = 1 << 16
"""Pairs that are handed on together, at least."""
LARGEST_SINGLE, LARGEST_DOUBLE = 1e15, 1e150
"""Lengths of vectors whose squares stay finite in products of each type."""
_SMALLEST = {np.dtype(np.float32): 1e-37, np.dtype(np.float64): 1e-307}
"""What a product may lose because it is too small for its type."""
Matrix = npt.NDArray[np.floating[Any]]
Derived = Callable[[Hashable, Callable[[], Any]], Any]


@dataclass(frozen=True, slots=True)
class Factor:
    """Vectors as products take them: seen from a centre, in a type, with half the square of each length."""

    values: Matrix
    halves: Matrix
    longest: float


@dataclass(frozen=True, slots=True)
class Vectors:
    """The vectors of one side, and the windows of their rows."""

    values: Doubles
    """One row for each vector. Those with NULL, NaN or an infinite number are left out: near to none."""
    rows: Rows32
    times: Int64s
    deadlines: Int64s
    derived: Derived = lambda _, make: make()
    """Keeps what is made of these vectors: kept rows are met in every batch."""

    @classmethod
    def of(cls, rows: RowSet, node: Operand, columns: tuple[str, ...]) -> Vectors:
        names = "vectors", *(node.names[c] for c in columns)
        values, finite = rows.derived(names, lambda: _finite(vectors(rows, node, columns)))

        def derived(key: Hashable, make: Callable[[], Any]) -> Any:
            return rows.derived((names, key), make)

        times, deadlines = rows.int64s(node.max_time), rows.int64s(node.deadline)
        if len(finite) < len(times):
            times, deadlines = times[finite], deadlines[finite]
        return cls(values, finite, times, deadlines + node.window_us, derived)

    def centre(self) -> Doubles:
        """About where they are, so coarse that other vectors from there have the same centre."""
        found: Doubles = self.derived("centre", lambda: _centre(self.values))
        return found

    def factor(self, centre: Doubles, kind: np.dtype[Any]) -> Factor:
        made: Factor = self.derived((centre.tobytes(), kind.char), lambda: _factor(self.values, centre, kind))
        return made


def _finite(values: Doubles) -> tuple[Doubles, Rows32]:
    """Vectors of finite numbers, and where they are."""
    finite = np.flatnonzero(np.isfinite(values).all(axis=1)).astype(np.int32)
    return (values if len(finite) == len(values) else values[finite]), finite


def vectors(rows: RowSet, node: Operand, columns: tuple[str, ...]) -> Doubles:
    """One row for each row, with NaN for NULL."""
    return np.column_stack([doubles(rows.batch.column(node.names[c])) for c in columns])


def _centre(values: Doubles) -> Doubles:
    """The mean of some of them, rounded to about the size of what they differ by. Any centre is right."""
    values = values[:: -(-len(values) // SAMPLE)]
    if np.abs(values).max() > LARGEST_DOUBLE:
        return np.zeros(values.shape[1])
    mean = values.mean(axis=0)
    apart = np.abs(values - mean).max()
    step = np.exp2(np.ceil(np.log2(apart))) if apart > 0 else 0.0
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        rounded: Doubles = np.rint(mean / step) * step + 0.0  # no -0.0, which would be another centre
    return np.where(np.isfinite(rounded), rounded, mean)


def _factor(values: Doubles, centre: Doubles, kind: np.dtype[Any]) -> Factor:
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        seen = values - centre if centre.any() else values
        halves = np.einsum("ij,ij->i", seen, seen) / 2
        longest = float(np.sqrt(2 * halves.max()))
        return Factor(seen.astype(kind, order="C"), halves.astype(kind), longest)


def distance_match(ours: Vectors, theirs: Vectors, most: float) -> Iterator[tuple[Rows32, Rows32]]:
    """Yield (rows of ours, rows of theirs) whose distance is at most `most`, and whose windows overlap."""
    if not len(ours.rows) or not len(theirs.rows) or most < 0:
        return
    factors = _factors(ours, theirs)
    least = None if factors is None else _least_product(*factors, most)
    gathered: list[tuple[Rows32, Rows32]] = []
    count = 0
    for i in range(0, len(ours.rows), BLOCK_ROWS):
        block = slice(i, i + BLOCK_ROWS)
        for j in range(0, len(theirs.rows), BLOCK_OTHERS):
            others = slice(j, j + BLOCK_OTHERS)
            if factors is None or least is None:
                candidates = _all(ours.rows[block], theirs.rows[others])
            else:
                candidates = _candidates(*factors, block, others, least)
            found = _verified(
                *candidates,
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


def _factors(ours: Vectors, theirs: Vectors) -> tuple[Factor, Factor] | None:
    """Both sides in a type whose products cannot overflow; None if there is none."""
    centre = theirs.centre()
    for kind, largest in ((np.dtype(np.float32), LARGEST_SINGLE), (np.dtype(np.float64), LARGEST_DOUBLE)):
        factors = ours.factor(centre, kind), theirs.factor(centre, kind)
        if all(factor.longest < largest for factor in factors):
            return factors
    return None


def _least_product(ours: Factor, theirs: Factor, most: float) -> float:
    """What x·y - |x|²/2 - |y|²/2 may be at least, with all that rounding may take away."""
    reach = (ours.longest + theirs.longest) ** 2
    kind = ours.values.dtype
    # d products and sums and a few more, and the rounding of every number to its type; twice that to be sure.
    terms = ours.values.shape[1] + 16
    slack = terms * (reach * float(np.finfo(kind).eps) + _SMALLEST[kind])
    return float(-(most * most * (1 + 1e-12) / 2 + slack))


def _all(rows: Rows32, others: Rows32) -> tuple[Rows32, Rows32]:
    """Positions of all pairs."""
    left, right = (positions.ravel().astype(np.int32) for positions in np.indices((len(rows), len(others))))
    return left, right


def _candidates(
    ours: Factor, theirs: Factor, block: slice, others: slice, least: float
) -> tuple[Rows32, Rows32]:
    """Positions of pairs that may be near enough."""
    products = ours.values[block] @ theirs.values[others].T
    rows, positions = _at_least(products, ours.halves[block], theirs.halves[others], least)
    return rows, positions


@njit(cache=True, nogil=True)
def _at_least(products: Any, halves: Any, other_halves: Any, least: float) -> Any:
    """Positions of products that are not less than both halves and a bound together."""
    counts = np.zeros(len(products), dtype=np.int32)
    limits = halves + halves.dtype.type(least)
    total = 0
    for i in range(len(products)):
        row, limit = products[i], limits[i]
        count = 0
        for j in range(len(row)):
            count += row[j] - other_halves[j] >= limit
        counts[i] = count
        total += count
    rows, others = np.empty(total, dtype=np.int32), np.empty(total, dtype=np.int32)
    found = 0
    for i in range(len(products)):
        if counts[i]:
            row, limit = products[i], limits[i]
            for j in range(len(row)):
                if row[j] - other_halves[j] >= limit:
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
