"""Session windows: one result per group and session, once the watermark has passed its end.

    kept rows   ├──┤ ├────┤   ├─┤          ├──┤      from the first row of a chain to its deadline, a gap
    sessions    ├───────────────┤          ├──┤      after the last: rows that touch are one session

A session is final when its deadline is. Until then it may grow, for as long as rows come, so that no time
is known after which its first rows may go. They are taken along: when the watermark passes the deadline of a
row whose session goes on, what it holds is kept again, with the deadline that the session has by then.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from anabranch.exchange.address import partition_of
from anabranch.operators.group.final_rows import FinalRows, final_rows
from anabranch.operators.group.folds.window_bounds import positions_in, window_bounds
from anabranch.operators.group.windows.grouped_windows import (
    CHUNK_ROWS,
    ROUTE,
    GroupedWindows,
    Windows,
    whole_groups,
)
from anabranch.operators.group.windows.window_rows import condensed_again, in_segments, new_sessions
from anabranch.operators.rows.arrays import Int64s
from anabranch.operators.rows.column_codes import Flags
from anabranch.operators.rows.row_set import RowSet, concat_rows, int64s
from anabranch.plan.inputs import DEADLINE, HASH, MAX_TIME, TIME
from anabranch.plan.logical import UNBOUNDED_US


class SessionWindows(GroupedWindows):
    """One query's sessions at one site, for one step."""

    def run(self) -> None:
        closing = final_rows(self._blocks, self._emission, self._owned, by=DEADLINE)
        if closing is None:
            return
        carried = [self._answer(piece) for piece in whole_groups(closing, CHUNK_ROWS)]
        if rows := [batch for batch in carried if batch.num_rows]:
            self.kept[self._node.state] = [RowSet.sorted(concat_rows(rows), MAX_TIME).batch]

    def _answer(self, closing: FinalRows) -> pa.RecordBatch:
        """Emit the sessions that end; returns the rows that are kept of those that go on."""
        self._charge(closing)
        rows = self._gathered(self._groups_of(closing))
        times, deadlines = int64s(rows.batch, TIME), int64s(rows.batch, DEADLINE)
        new = new_sessions(rows, self._node, time=TIME)
        starts = np.flatnonzero(new)
        latest = np.maximum.reduceat(deadlines, starts)
        over = latest < self._emission.until
        number = np.cumsum(new) - 1
        ended = rows.batch.filter(pa.array(over[number]))
        its_starts = np.flatnonzero(new[over[number]])
        segments, ranges = in_segments(ended, its_starts)
        self._emit_windows(Windows(segments, ranges, times[starts[over]], latest[over]))
        return self._carried(rows, ~over[number] & (deadlines < self._emission.until), latest[number])

    def _groups_of(self, closing: FinalRows) -> pa.RecordBatch:
        """All that is still kept of the groups, in the order of (hash, time)."""
        hashes = np.unique(closing.hashes)
        ever = np.full(len(hashes), UNBOUNDED_US)
        since = self._emission.since_by_partition()
        pieces = []
        for block in closing.blocks:
            ranges = window_bounds(block, of_hashes=hashes, first=-ever, last=ever)
            at = positions_in(ranges.starts, ranges.ends)
            partitions = partition_of(int64s(block.batch, HASH)[at])
            at = at[int64s(block.batch, DEADLINE)[at] >= since[partitions]]
            pieces.append(block.batch.select(self._columns()).take(pa.array(at)))
        rows = concat_rows(pieces)
        self._charge_pairs(rows.num_rows)
        return RowSet.sorted(rows, TIME).batch

    def _carried(self, rows: RowSet, which: Flags, deadlines: Int64s) -> pa.RecordBatch:
        """Rows that are final in sessions that are not, with the deadlines of their sessions."""
        columns = {name: rows.batch.column(name) for name in self._columns()}
        columns[HASH] = rows.batch.column(ROUTE)
        columns[DEADLINE] = pa.array(deadlines)
        named = {MAX_TIME if name == TIME else name: column for name, column in columns.items()}
        carried = pa.record_batch(named).filter(pa.array(which))
        return condensed_again(carried, self._node) if self._node.condensed and carried.num_rows else carried
