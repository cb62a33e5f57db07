"""Rows of pairs: columns of both sides, with the newest time and the deadline of what they are joined of."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from anabranch.operators.join.pair_bytes import Pairs
from anabranch.operators.rows.expressions import filter_rows
from anabranch.operators.rows.row_selection import RowSelection
from anabranch.operators.rows.row_set import RowSet
from anabranch.plan.inputs import DEADLINE, HASH, MAX_TIME
from anabranch.plan.nodes import JoinNode

_HIDDEN = (HASH, MAX_TIME, DEADLINE)
"""Columns of rows that are kept or joined again, beside those of the query."""
_COUNT = "rows"
"""Column of results without any other: they are still so many."""


def columns_of(node: JoinNode) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Physical columns of either side that rows of a join are made with."""
    wanted = _wanted(node)
    left, right = (tuple(side.names[c] for c in wanted if c in side.names) for side in node.sides)
    return left, right


def filtered_rows(node: JoinNode, pairs: list[Pairs], *, timed: bool) -> pa.Table:
    """The rows of pairs that satisfy a join's predicates.

    Parameters
    ----------
    timed
        Whether they carry hash, time and deadline.
    """
    rows = _combined(node, pairs, timed)
    if node.classes:  # a theta join has applied them already
        rows = filter_rows(rows, node.residuals)
    if timed:
        return rows.select([*_HIDDEN, *node.columns])
    return rows.select(list(node.columns) or [_COUNT])


def as_rows(node: JoinNode, tables: Sequence[pa.Table]) -> RowSet:
    """Rows of a join in the form its state has."""
    names = [*_HIDDEN, *(node.names[c] for c in node.columns)]
    rows = pa.concat_tables(tables).rename_columns(names).combine_chunks().to_batches()[0]
    return RowSet.sorted(rows, MAX_TIME) if node.ordered else RowSet(rows)


def _wanted(node: JoinNode) -> dict[str, None]:
    """Columns that rows of a join are made with: some only for its predicates."""
    return dict.fromkeys((*node.columns, *(node.residual_columns if node.classes else ())))


def _combined(node: JoinNode, pairs: list[Pairs], timed: bool) -> pa.Table:
    left = RowSelection((p.left, p.left_rows) for p in pairs)
    right = RowSelection((p.right, p.right_rows) for p in pairs)

    def side(name: str) -> pa.Array:
        if name in node.left.names:
            return left.column(node.left.names[name])
        return right.column(node.right.names[name])

    columns = {name: side(name) for name in _wanted(node)}
    if timed:
        columns |= _times(node, left, right)
        columns[HASH] = left.column(HASH)
    elif not node.columns:  # SELECT of constants only: the number of rows still counts
        columns[_COUNT] = pa.nulls(len(left), pa.bool_())
    return pa.Table.from_arrays(list(columns.values()), list(columns))


def _times(node: JoinNode, left: RowSelection, right: RowSelection) -> dict[str, pa.Array]:
    deadlines = (
        rows.int64s(side.deadline) + side.window_us for rows, side in ((left, node.left), (right, node.right))
    )
    times = left.int64s(node.left.max_time), right.int64s(node.right.max_time)
    return {MAX_TIME: pa.array(np.maximum(*times)), DEADLINE: pa.array(np.minimum(*deadlines))}
