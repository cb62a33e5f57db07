"""The window aggregate: for every final row, its group's rows inside the window that ends at it.

State is the rows themselves, in the blocks that joins use too. A window by time is a range of positions
in every block, found by binary search; the block's summaries fold it (`partial_aggregate`), and the
folds of all blocks add up. So a final row costs the logarithm of the state, whatever its window holds.

Groups whose hash belongs to several keys, and windows by count, are computed on rows gathered from
the blocks and sorted anew under exact group numbers: few rows in the one case, at most n per
touched group beside the final ones in the other.

Above a join the rows are its results, each of which has a deadline of its own (`alive_results`).
"""

from __future__ import annotations

from functools import cached_property

import numpy as np
import pyarrow as pa

from anabranch.operators.group.aggregate_results import Accumulators, result_of, summaries_of
from anabranch.operators.group.alive_results import Instants, fold_alive
from anabranch.operators.group.final_rows import CHUNK_ROWS, FinalRows, time_range
from anabranch.operators.group.folds.partial_aggregate import Summary
from anabranch.operators.group.folds.window_bounds import Ranges, window_bounds
from anabranch.operators.group.gathered_groups import (
    GatheredGroups,
    gather_groups,
    gather_newest,
    shared_hashes,
)
from anabranch.operators.group.window_grouping import WindowGrouping
from anabranch.operators.rows.arrays import Int64s
from anabranch.plan.aggregate import aggregate_column


class WindowAggregate(WindowGrouping):
    """One query's aggregates at one site, for one step."""

    @cached_property
    def _summaries(self) -> tuple[Summary, ...]:
        return tuple(dict.fromkeys(s for a in self._node.aggregates for s in summaries_of(a)))

    def run(self) -> None:
        rows = self._final_rows()
        for start in range(0, 0 if rows is None else len(rows), CHUNK_ROWS):
            assert rows is not None
            self._answer(rows.at(slice(start, start + CHUNK_ROWS)))

    def _answer(self, rows: FinalRows) -> None:
        self._charge(rows)
        node = self._node
        if node.rows is not None:
            gathered = gather_newest(rows, node, emission=self._emission, before=node.rows - 1)
            self._emit_results(gathered.rows, self._fold_newest(gathered, node.rows))
            return
        shared = np.isin(rows.hashes, shared_hashes(rows, node))
        if shared.any():
            self._answer_by_time(gather_groups(rows.at(shared), node).rows)
            rows = rows.at(~shared)
        if len(rows):
            self._answer_by_time(rows)

    def _answer_by_time(self, rows: FinalRows) -> None:
        if not self._node.joined:
            self._emit_results(rows, self._fold(rows))
            return
        instants = Instants.of(rows)
        known = fold_alive(instants.rows, self._node.window_us, self._summaries, self._charge_pairs)
        self._emit_results(rows, known, instants.of_result)

    def _fold(self, rows: FinalRows) -> Accumulators:
        """Aggregate the windows by time that end at the rows."""
        known = {s: s.empty(len(rows)) for s in self._summaries}
        first = rows.times - self._node.window_us
        earliest, latest = int(first.min()), int(rows.times.max())
        for block in rows.blocks:
            least, largest = time_range(block)
            if largest < earliest or least > latest:
                continue
            ranges = window_bounds(block, of_hashes=rows.hashes, first=first, last=rows.times)
            for summary, accumulator in known.items():
                summary.fold(block, ranges, accumulator)
        return known

    def _fold_newest(self, gathered: GatheredGroups, newest: int) -> Accumulators:
        """Aggregate the windows by count that end at the rows."""
        rows = gathered.rows
        known = {s: s.empty(len(rows)) for s in self._summaries}
        ends = rows.position + 1
        starts = np.maximum(ends - newest, gathered.group_start)
        ranges = Ranges(starts, ends, np.zeros(len(rows), dtype=bool))
        for summary, accumulator in known.items():
            summary.fold(rows.blocks[0], ranges, accumulator)
        return known

    def _emit_results(self, rows: FinalRows, known: Accumulators, which: Int64s | None = None) -> None:
        """Emit a result per row; `which` are the windows of the rows, where these share windows."""
        node = self._node
        columns = {name: rows.column(physical) for name, physical in node.names.items()}
        for index, aggregate in enumerate(node.aggregates):
            values = result_of(aggregate, known)
            columns[aggregate_column(index)] = values if which is None else values.take(pa.array(which))
        self._emit_columns(columns, len(rows))
