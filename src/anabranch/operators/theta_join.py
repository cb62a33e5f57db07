"""Joins without an equality: DuckDB finds the pairs by windows and predicates."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from anabranch.operators.arrays import Rows32
from anabranch.operators.expressions import join_rows
from anabranch.operators.rows import RowSet, int64s
from anabranch.plan.local_plan import JoinNode, LocalNode


def theta_match(
    node: JoinNode, new_node: LocalNode, new: RowSet, old_node: LocalNode, old: RowSet
) -> Iterator[tuple[Rows32, Rows32]]:
    """Yield (rows of `new`, rows of `old`) that satisfy the node's window and predicates."""
    left = _operand(node, new_node, new, row="l")
    right = _operand(node, old_node, old, row="r")
    for pairs in join_rows(left, right, node.residuals):
        if pairs.num_rows:
            yield pairs.column("l").to_numpy(), pairs.column("r").to_numpy()


def _operand(node: JoinNode, side: LocalNode, rows: RowSet, *, row: str) -> pa.Table:
    columns = {
        name: rows.batch.column(side.names[name]) for name in node.residual_columns if name in side.names
    }
    times = int64s(rows.batch, side.max_time)
    deadlines = int64s(rows.batch, side.deadline) + side.window_us
    return pa.table({row: np.arange(len(rows), dtype=np.int32), "t": times, "d": deadlines, **columns})
