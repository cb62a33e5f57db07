"""Whose answer a final row of a hot group is: that of one of several lanes, by its time.

Every lane reads the same blocks, so that each can tell its rows without asking the others: final rows of a
group are cut where the block that has most of them has equal parts. Rows of equal time are answered together:
of equal ones DISTINCT takes one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from anabranch.exchange.address import partition_of
from anabranch.operators.group.folds.window_bounds import Runs, positions_in, window_bounds
from anabranch.operators.rows.arrays import Int64s
from anabranch.operators.rows.column_codes import Flags
from anabranch.operators.rows.row_set import RowSet, int64s
from anabranch.plan.inputs import TIME


@dataclass(frozen=True, slots=True)
class AnsweredShare:
    """Which final rows of hot groups are answered here, and of which other groups.

    Attributes
    ----------
    hashes
        Those of the groups, ascending.
    lane, lanes
        The rows that fall to this lane, of no other group; without lanes, no row of these groups, and all
        rows of all others.
    """

    hashes: tuple[int, ...] = ()
    lane: int = 0
    lanes: int = 0

    def without_groups(self, block: RowSet, positions: Int64s) -> Int64s:
        """Of ascending positions in a block, those of other groups."""
        if not self.hashes:
            return positions
        runs = Runs.of(block)
        for hot in self.hashes:
            at = int(np.searchsorted(runs.hashes, hot))
            if at < len(runs.hashes) and runs.hashes[at] == hot:
                first, last = np.searchsorted(positions, runs.starts[at : at + 2])
                positions = np.concatenate([positions[:first], positions[last:]])
        return positions

    def of_lane(self, blocks: Sequence[RowSet], answered: Flags, since: Int64s, until: int) -> list[Int64s]:
        """Positions in each block of the rows between two times that fall to this lane.

        Parameters
        ----------
        answered, since
            By partition, whether it takes part in the step, and where it goes on.
        """
        if not blocks:
            return []
        hashes: Int64s = np.array(self.hashes, dtype=np.int64)
        hashes = hashes[answered[partition_of(hashes)]]
        first, last = since[partition_of(hashes)], np.full(len(hashes), until - 1)
        ranges = [window_bounds(b, of_hashes=hashes, first=first, last=last) for b in blocks]
        for group in range(len(hashes)):
            sizes = [int(r.ends[group] - r.starts[group]) for r in ranges]
            most = int(np.argmax(sizes))
            times = int64s(blocks[most].batch, TIME)[ranges[most].starts[group] :]
            if self.lane:
                first[group] = _cut(times, sizes[most], self.lane, self.lanes, last[group])
            if self.lane + 1 < self.lanes:
                last[group] = _cut(times, sizes[most], self.lane + 1, self.lanes, last[group]) - 1
        mine = (window_bounds(b, of_hashes=hashes, first=first, last=last) for b in blocks)
        return [positions_in(r.starts, r.ends) for r in mine]


def _cut(times: Int64s, rows: int, lane: int, lanes: int, last: int) -> int:
    """The time at which a lane begins; behind all rows where there are none to tell it by."""
    return int(times[rows * lane // lanes]) if rows else last + 1


EVERYTHING = AnsweredShare()
"""Of groups that no other site answers for."""
