"""Results of a join as rows that are grouped: what is kept of them, and how they are read again.

They lie in a state of their own, in blocks like those of intermediate joins: with time, deadline and the
values that keys and aggregates need. No plan owns it. Whatever track finds a result adds it there, and
the owner of the partition answers for it once it is final. That is never in the step in which it is found, so
that a result may lie in any partition: blocks are where rows change sites, and no second shuffle is needed.
"""

from __future__ import annotations

import pyarrow as pa

from anabranch.exchange.address import partition_of
from anabranch.operators.group.group_hash import group_hashes, seed_of
from anabranch.operators.group.windows.window_rows import window_rows
from anabranch.operators.rows.expressions import project
from anabranch.operators.rows.row_set import RowSet, int64s
from anabranch.plan.aggregate import WindowNode
from anabranch.plan.inputs import DEADLINE, HASH, MAX_TIME, TIME


def result_rows(rows: pa.Table, node: WindowNode) -> RowSet:
    """Results of a join in the form in which their state keeps them."""
    hidden = rows.select([HASH, MAX_TIME, DEADLINE])
    values = project(rows, node.values)
    table = pa.table([*hidden.columns, *values.columns], names=[*hidden.column_names, *values.column_names])
    batch = table.combine_chunks().to_batches()[0]
    if not node.proved:
        keys = [batch.column(key) for key in node.keys]
        place = None if node.regrouped else partition_of(int64s(batch, HASH))
        hashes = group_hashes(keys, batch.num_rows, seed=seed_of(node.state), partitions=place)
        batch = batch.set_column(0, HASH, pa.array(hashes))
    sorted_rows = RowSet.sorted(batch, MAX_TIME)
    return sorted_rows if node.grouped is None else window_rows(sorted_rows, node, time=MAX_TIME)


def as_stream(rows: RowSet) -> RowSet:
    """Kept results as rows of a stream, whose time is that of their newest row."""

    def renamed() -> RowSet:
        names = [TIME if name == MAX_TIME else name for name in rows.batch.schema.names]
        return RowSet(rows.batch.rename_columns(names))

    return rows.derived("as stream", renamed)
