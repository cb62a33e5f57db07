"""What windows of GROUP BY share: groups told apart, windows aggregated, results emitted."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from anabranch.operators.group.aggregate_results import result_of
from anabranch.operators.group.final_rows import FinalRows
from anabranch.operators.group.folds.row_aggregates import Contents, row_result, stored_best
from anabranch.operators.group.folds.window_bounds import Ranges
from anabranch.operators.group.group_keys import group_numbers, mixed_hashes
from anabranch.operators.group.stored_summaries import Stored
from anabranch.operators.group.window_grouping import WindowGrouping
from anabranch.operators.group.windows.window_rows import kept_columns, summaries
from anabranch.operators.rows.arrays import Int64s
from anabranch.operators.rows.arrow_types import arrow_type
from anabranch.operators.rows.row_set import RowSet, int64s
from anabranch.plan.aggregate import NEED_WINDOW, AggregateColumn, aggregate_column, is_bound
from anabranch.plan.inputs import DEADLINE, HASH, TIME

CHUNK_ROWS = 1 << 19
"""Kept rows answered at a time: bounds memory when much becomes final at once."""
ROUTE = "route"
"""Column of the routing hash, where the hash is replaced by exact group numbers."""


@dataclass(frozen=True, slots=True)
class Windows:
    """Some windows, each a range of positions in one set of rows of its group."""

    rows: RowSet
    ranges: Ranges
    starts_us: Int64s
    ends_us: Int64s

    def __len__(self) -> int:
        return len(self.starts_us)


class GroupedWindows(WindowGrouping):
    """One query's windows at one site, for one step."""

    def _gathered(self, batch: pa.RecordBatch) -> RowSet:
        """Kept rows, ascending by hash, in the order of (group, time)."""
        batch = batch.append_column(ROUTE, batch.column(HASH))
        if len(mixed_hashes(RowSet(batch), self._node)):
            numbers = group_numbers(batch, self._node.keys)
            batch = batch.set_column(batch.schema.get_field_index(HASH), HASH, pa.array(numbers))
            return RowSet.sorted(batch, TIME)
        return RowSet(batch)

    def _columns(self) -> list[str]:
        return [HASH, TIME, DEADLINE, *kept_columns(self._node)]

    def _emit_windows(self, windows: Windows) -> None:
        """One result per window."""
        if not len(windows):
            return
        node, at = self._node, pa.array(windows.ranges.starts)
        known = {s: s.empty(len(windows)) for s in summaries(node)}
        for summary, accumulator in known.items():
            reader = Stored(summary) if node.condensed else summary
            reader.fold(windows.rows, windows.ranges, accumulator)
        contents = None
        if any(a.function in NEED_WINDOW for a in node.aggregates):
            contents = Contents.of(windows.rows, windows.ranges)
            self._charge_pairs(len(contents.position))
        columns = {n: windows.rows.batch.column(physical).take(at) for n, physical in node.names.items()}
        for index, aggregate in enumerate(node.aggregates):
            if is_bound(aggregate.function):
                values = _bound(aggregate, windows)
            elif contents is not None and aggregate.function in NEED_WINDOW:
                values = row_result(stored_best(aggregate) if node.condensed else aggregate, contents)
            else:
                values = result_of(aggregate, known)
            columns[aggregate_column(index)] = values
        self._emit_columns(columns, len(windows))


def in_order_of_blocks(rows: FinalRows, columns: Sequence[str]) -> pa.RecordBatch:
    """Columns of rows of several blocks, in the order of the rows."""
    return pa.record_batch({name: rows.column(name) for name in columns})


def whole_groups(rows: FinalRows, size: int) -> Iterator[FinalRows]:
    """The rows in pieces of about this size, no group in two of them."""
    start = 0
    while start < len(rows):
        end = min(start + size, len(rows))
        end = int(np.searchsorted(rows.hashes, rows.hashes[end - 1], side="right"))
        yield rows.at(slice(start, end))
        start = end


def routes(rows: RowSet, positions: Int64s) -> Int64s:
    """Routing hashes of some rows."""
    return int64s(rows.batch, ROUTE)[positions]


def _bound(aggregate: AggregateColumn, windows: Windows) -> pa.Array:
    bounds = windows.starts_us if aggregate.function == "window_start" else windows.ends_us
    return pa.array(bounds).cast(arrow_type(aggregate.type))
