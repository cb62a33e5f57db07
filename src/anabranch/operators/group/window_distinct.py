"""DISTINCT over a window: a final row is a result unless an equal row lies in the window before it.

Above a join: unless an equal result that began before it is still there.

Of equal rows with equal times one is a result, and which one cannot be seen: all columns agree.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from anabranch.operators.group.alive_results import none_before
from anabranch.operators.group.final_rows import FinalRows
from anabranch.operators.group.folds.window_bounds import window_bounds
from anabranch.operators.group.gathered_groups import gather_groups, shared_hashes
from anabranch.operators.group.window_grouping import WindowGrouping
from anabranch.operators.rows.column_codes import Flags
from anabranch.operators.rows.expressions import project


class WindowDistinct(WindowGrouping):
    """One query's DISTINCT at one site, for one step."""

    def run(self) -> None:
        rows = self._final_rows()
        if rows is None:
            return
        self._charge(rows)
        shared = np.isin(rows.hashes, shared_hashes(rows, self._node))
        if shared.any():
            self._emit_first(gather_groups(rows.at(shared), self._node).rows)
            rows = rows.at(~shared)
        self._emit_first(rows)

    def _emit_first(self, rows: FinalRows) -> None:
        """Emit the rows that no equal row of the window precedes."""
        new_time = (rows.hashes[1:] != rows.hashes[:-1]) | (rows.times[1:] != rows.times[:-1])
        rows = rows.at(np.append(np.ones(min(len(rows), 1), dtype=bool), new_time))
        rows = rows.at((none_before if self._node.joined else alone)(rows, self._node.window_us))
        if len(rows):
            columns = {name: rows.column(physical) for name, physical in self._node.names.items()}
            self._emit(project(pa.table(columns), self._query.outputs))


def alone(rows: FinalRows, window_us: int) -> Flags:
    """Whether no equal row lies in the window before a row."""
    found = np.ones(len(rows), dtype=bool)
    for block in rows.blocks:
        before = window_bounds(
            block, of_hashes=rows.hashes, first=rows.times - window_us, last=rows.times - 1
        )
        found &= before.starts == before.ends
    return found
