"""Tumbling and hopping windows: one result per group and window, once the watermark has passed its end.

slide    ├───┤
windows  ├───────────┤                       every kept row lies in a pane, and every window is a range of
             ├───────────┤                   panes: its rows are a range of positions in the rows of its
                 ├───────────┤               group, sorted by time
panes    ├───┼───┼───┼───┼───┤
"""

from __future__ import annotations

import numpy as np

from anabranch.exchange.address import partition_of
from anabranch.operators.group.final_rows import Emission, FinalRows, final_rows
from anabranch.operators.group.folds.window_bounds import Runs, positions_in, window_bounds
from anabranch.operators.group.windows.grouped_windows import (
    CHUNK_ROWS,
    GroupedWindows,
    Windows,
    in_order_of_blocks,
    routes,
    whole_groups,
)
from anabranch.operators.group.windows.window_rows import in_segments
from anabranch.operators.rows.arrays import Int64s
from anabranch.operators.rows.row_set import RowSet, int64s
from anabranch.plan.inputs import HASH, TIME
from anabranch.plan.logical import GroupWindow


class AlignedWindows(GroupedWindows):
    """One query's tumbling or hopping windows at one site, for one step."""

    def run(self) -> None:
        first, last = self._ends
        if first > last:
            return
        # What lies in a window that ends here: those of partitions that are ahead have gone already.
        reach = Emission(first - self._window.size_us, last, owing=self._emission.owing)
        rows = final_rows(self._blocks, reach, self._owned)
        if rows is not None:
            for piece in whole_groups(rows, CHUNK_ROWS):
                self._answer(piece)

    @property
    def _window(self) -> GroupWindow:
        assert self._node.grouped is not None
        return self._node.grouped

    @property
    def _ends(self) -> tuple[int, int]:
        """Ends of the first and the last window that become final."""
        window = self._window
        place = (window.offset_us + window.size_us) % window.slide_us
        since, until = max(self._emission.since, 0), max(self._emission.until, 0)
        return since + 1 + (place - since - 1) % window.slide_us, until - (until - place) % window.slide_us

    def _answer(self, rows: FinalRows) -> None:
        self._charge(rows)
        gathered = self._gathered(in_order_of_blocks(rows, self._columns()))
        overlap = self._window.slide_us < self._window.size_us
        self._emit_windows(self._overlapping(gathered) if overlap else self._apart(gathered))

    def _apart(self, rows: RowSet) -> Windows:
        """Windows of rows that lie in one each."""
        hashes = int64s(rows.batch, HASH)
        begun = self._window.last_start(int64s(rows.batch, TIME))
        new = np.ones(len(hashes), dtype=bool)
        new[1:] = (hashes[1:] != hashes[:-1]) | (begun[1:] != begun[:-1])
        starts = np.flatnonzero(new)
        if self._emission.ahead:
            since = self._emission.since_by_partition()[partition_of(routes(rows, starts))]
            due = begun[starts] + self._window.size_us > since
            if not due.all():
                return self._apart(_without(rows, starts, due))
        segments, ranges = in_segments(rows.batch, starts)
        return Windows(segments, ranges, begun[starts], begun[starts] + self._window.size_us)

    def _overlapping(self, rows: RowSet) -> Windows:
        """Windows of rows that lie in several each."""
        window, runs, times = self._window, Runs.of(rows), int64s(rows.batch, TIME)
        first, last = self._ends
        # Windows are numbered from the first that has rows: a query that has not emitted yet begins in 1970.
        earliest = int(window.last_start(int(times.min()))) + window.size_us
        first = max(first, earliest - window.size_us // window.slide_us * window.slide_us)
        group = np.repeat(np.arange(len(runs.hashes)), np.diff(runs.starts))
        # Per row the numbers of the windows, of those that become final, with its time in them.
        ends_after = (window.last_start(times) + window.size_us - first) // window.slide_us
        count = (last - first) // window.slide_us + 1
        least = np.maximum(-((first - 1 - times) // window.slide_us), 0)
        most = np.maximum(np.minimum(ends_after + 1, count), least)
        self._charge_pairs(int((most - least).sum()))
        numbers = positions_in(least, most)
        pairs = np.unique(np.repeat(group, most - least) * count + numbers)
        which, ends = pairs // count, first + (pairs % count) * window.slide_us
        if self._emission.ahead:
            partitions = partition_of(routes(rows, runs.starts[which]))
            due = ends > self._emission.since_by_partition()[partitions]
            which, ends = which[due], ends[due]
        starts = ends - window.size_us
        ranges = window_bounds(rows, of_hashes=runs.hashes[which], first=starts, last=ends - 1)
        return Windows(rows, ranges, starts, ends)


def _without(rows: RowSet, starts: Int64s, kept: np.ndarray) -> RowSet:
    """Rows of some segments."""
    lengths = np.diff(np.append(starts, len(rows)))
    return RowSet(rows.batch.filter(np.repeat(kept, lengths)))
