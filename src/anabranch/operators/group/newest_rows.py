"""Forgetting by count: of each group only the newest rows, where later windows need no others."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from anabranch.operators.group.group_keys import mixed_hashes
from anabranch.operators.rows.row_set import RowSet, int64s
from anabranch.plan.aggregate import WindowNode
from anabranch.plan.inputs import HASH, TIME


@dataclass(frozen=True, slots=True)
class Trim:
    """Of the rows before `before`, which are in the results, a group's `newest` are enough."""

    node: WindowNode
    newest: int
    before: int

    def applied_to(self, rows: RowSet) -> pa.RecordBatch:
        """The rows that are left, in the same order."""
        return keep_newest(rows, self)


def keep_newest(rows: RowSet, trim: Trim) -> pa.RecordBatch:
    """The rows that a trim leaves, in the same order.

    Rows in other blocks can only be more of the same group, so each set may be trimmed by itself.
    A hash that stands for several groups keeps all its rows.
    """
    hashes, times = int64s(rows.batch, HASH), int64s(rows.batch, TIME)
    starts = np.flatnonzero(np.append(True, hashes[1:] != hashes[:-1]))
    lengths = np.diff(np.append(starts, len(hashes)))
    # Rows of a group ascend by time, so that those in the results come first.
    emitted = np.add.reduceat((times < trim.before).astype(np.int64), starts)
    dropped = np.maximum(emitted - trim.newest, 0)
    dropped[np.isin(hashes[starts], mixed_hashes(rows, trim.node))] = 0
    kept = np.arange(len(hashes)) - np.repeat(starts, lengths) >= np.repeat(dropped, lengths)
    return rows.batch if kept.all() else rows.batch.filter(pa.array(kept))
