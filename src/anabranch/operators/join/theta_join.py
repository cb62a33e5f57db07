"""Joins without an equality: kernels find the pairs where predicates bound a difference or a distance.

All other predicates are left to DuckDB, on the pairs that kernel and windows leave; without a kernel, on all.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa

from anabranch.operators.join.band import BandRows, Drive, band_match
from anabranch.operators.join.distance import Vectors, are_near, distance_match, vectors
from anabranch.operators.join.pair_bytes import Pairs, cut_pairs
from anabranch.operators.rows.arrays import Rows32
from anabranch.operators.rows.expressions import filter_rows, join_rows
from anabranch.operators.rows.row_set import RowSet, int64s
from anabranch.operators.work_memory import MOST_FLUSH
from anabranch.plan.logical import Band, Distance
from anabranch.plan.nodes import JoinNode, Operand

FEWER = 4.0
"""Old rows drive only if runs are so many times shorter then: work should grow with the new rows."""
MOST_SHARE = 1 / 16
"""Of all pairs: where several bands leave more to be tested, DuckDB joins by two of them at once."""

FEW_DIMENSIONS = 4
"""Of vectors whose neighbours bands find faster than a product of matrices does."""


def theta_match(
    node: JoinNode, new_node: Operand, new: RowSet, old_node: Operand, old: RowSet
) -> Iterator[tuple[Rows32, Rows32]]:
    """Yield (rows of `new`, rows of `old`) that satisfy the node's window and predicates."""
    if not len(new) or not len(old):
        return
    found, rest = _found(node, new_node, new, old_node, old)
    for rows, old_rows in found:
        if rest:
            yield from _satisfying(node, rest, new_node, Pairs(new, rows, old, old_rows), old_node)
        else:
            yield rows, old_rows


def _found(
    node: JoinNode, new_node: Operand, new: RowSet, old_node: Operand, old: RowSet
) -> tuple[Iterator[tuple[Rows32, Rows32]], tuple[str, ...]]:
    """Pairs by the best kernel there is, and the predicates that it leaves out."""
    bands, distance = node.bands, node.distance
    if new_node is not node.left:
        bands = tuple(band.turned() for band in bands)
        distance = None if distance is None else distance.turned()
    if distance is not None and len(distance.left) > FEW_DIMENSIONS:
        return _near(distance, new_node, new, old_node, old), node.beside_distance
    drive, new_drives = _best_drive((*bands, *_sides_of(distance)), new_node, new, old_node, old)
    if drive is None and distance is not None:
        return _near(distance, new_node, new, old_node, old), node.beside_distance
    if drive is None:
        return _duckdb_match(node, new_node, new, old_node, old), ()
    pairs = band_match(drive) if new_drives else ((rows, others) for others, rows in band_match(drive))
    if distance is not None:
        pairs = _nearer(pairs, distance, new_node, new, old_node, old)
    return pairs, node.beside_bands


def _sides_of(distance: Distance | None) -> tuple[Band, ...]:
    """Vectors are no further apart in one dimension than in all, but for the rounding of square and root."""
    if distance is None:
        return ()
    most = distance.most * (1 + 2.0**-48) + 1e-150
    pairs = zip(distance.left, distance.right, strict=True)
    return tuple(Band(x, y, -most, most, "double") for x, y in pairs)


def _near(
    distance: Distance, new_node: Operand, new: RowSet, old_node: Operand, old: RowSet
) -> Iterator[tuple[Rows32, Rows32]]:
    ours, theirs = Vectors.of(new, new_node, distance.left), Vectors.of(old, old_node, distance.right)
    yield from distance_match(ours, theirs, distance.most)


def _nearer(
    pairs: Iterator[tuple[Rows32, Rows32]],
    distance: Distance,
    new_node: Operand,
    new: RowSet,
    old_node: Operand,
    old: RowSet,
) -> Iterator[tuple[Rows32, Rows32]]:
    """The pairs that are near enough in all dimensions together."""
    ours, theirs = vectors(new, new_node, distance.left), vectors(old, old_node, distance.right)
    for rows, old_rows in pairs:
        near = are_near(rows, old_rows, ours, theirs, distance.most)
        if near.any():
            yield rows[near], old_rows[near]


def _best_drive(
    logical: Sequence[Band], new_node: Operand, new: RowSet, old_node: Operand, old: RowSet
) -> tuple[Drive | None, bool]:
    """The way with the shortest runs, and whether new rows drive it."""
    bands = [_physical(band, new_node, old_node) for band in logical]
    if not bands:
        return None, True
    ours = BandRows(new, new_node, tuple(sorted({band.left for band in bands})))
    theirs = BandRows(old, old_node, tuple(sorted({band.right for band in bands})))
    by_new = _drives(ours, theirs, bands)
    if len(bands) == 1:
        return by_new[0], True
    shares = [drive.share() for drive in by_new]
    best = int(np.argmin(shares))
    if len(by_new) > 1:  # else one sorted column serves all bands
        by_old = _drives(theirs, ours, [band.turned() for band in bands])
        old_shares = [drive.share() for drive in by_old]
        if FEWER * min(old_shares) < shares[best]:
            return by_old[int(np.argmin(old_shares))], False
        if shares[best] > MOST_SHARE:
            return None, True
    return by_new[best], True


def _drives(driving: BandRows, others: BandRows, bands: list[Band]) -> list[Drive]:
    """A way for each column of the other side."""
    return [
        Drive(
            driving,
            others,
            column,
            tuple(band for band in bands if band.right == column),
            tuple(band for band in bands if band.right != column),
        )
        for column in dict.fromkeys(band.right for band in bands)
    ]


def _physical(band: Band, left: Operand, right: Operand) -> Band:
    return Band(left.names[band.left], right.names[band.right], band.low, band.high, band.rounding)


def _satisfying(
    node: JoinNode, predicates: Sequence[str], new_node: Operand, pairs: Pairs, old_node: Operand
) -> Iterator[tuple[Rows32, Rows32]]:
    """The pairs for which other predicates are true, too."""
    wanted = [
        {name: side.names[name] for name in node.residual_columns if name in side.names}
        for side in (new_node, old_node)
    ]
    ours, theirs = (tuple(names.values()) for names in wanted)
    for part, _ in cut_pairs(pairs, ours, theirs, most=MOST_FLUSH):
        columns = {name: part.left.taken(physical, part.left_rows) for name, physical in wanted[0].items()}
        columns |= {name: part.right.taken(physical, part.right_rows) for name, physical in wanted[1].items()}
        rows = pa.table({"l": part.left_rows, "r": part.right_rows, **columns})
        found = filter_rows(rows, predicates)
        if found.num_rows:
            yield found.column("l").to_numpy(), found.column("r").to_numpy()


def _duckdb_match(
    node: JoinNode, new_node: Operand, new: RowSet, old_node: Operand, old: RowSet
) -> Iterator[tuple[Rows32, Rows32]]:
    left = _operand(node, new_node, new, row="l")
    right = _operand(node, old_node, old, row="r")
    for pairs in join_rows(left, right, node.residuals):
        if pairs.num_rows:
            yield pairs.column("l").to_numpy(), pairs.column("r").to_numpy()


def _operand(node: JoinNode, side: Operand, rows: RowSet, *, row: str) -> pa.Table:
    columns = {
        name: rows.batch.column(side.names[name]) for name in node.residual_columns if name in side.names
    }
    times = int64s(rows.batch, side.max_time)
    deadlines = int64s(rows.batch, side.deadline) + side.window_us
    return pa.table({row: np.arange(len(rows), dtype=np.int32), "t": times, "d": deadlines, **columns})
