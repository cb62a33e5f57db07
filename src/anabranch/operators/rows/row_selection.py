"""Rows picked from several sets, one after the other, as columns of one table."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import groupby

import numpy as np
import pyarrow as pa

from anabranch.operators.rows.arrays import Int64s, Rows32
from anabranch.operators.rows.pairs import take
from anabranch.operators.rows.row_set import RowSet


class RowSelection:
    """Positions in sets of rows.

    Most probes of a batch find few pairs, so that a table made of those of all sets at once costs a
    fraction of one per set.
    """

    def __init__(self, found: Iterable[tuple[RowSet, Rows32]]) -> None:
        self._parts: list[tuple[RowSet, Rows32]] = []
        for _, group in groupby(found, key=lambda part: id(part[0])):
            parts = list(group)
            rows = parts[0][1] if len(parts) == 1 else np.concatenate([rows for _, rows in parts])
            self._parts.append((parts[0][0], rows))
        self._size = sum(len(rows) for _, rows in self._parts)

    def __len__(self) -> int:
        return self._size

    def int64s(self, name: str) -> Int64s:
        """The values of a column that has no NULLs."""
        values = np.empty(self._size, dtype=np.int64)
        at = 0
        for its, rows in self._parts:
            take(its.int64s(name), rows, values[at : at + len(rows)])
            at += len(rows)
        return values

    def column(self, name: str) -> pa.Array:
        """The values of a column."""
        if all(its.is_plain(name) for its, _ in self._parts):
            return pa.array(self.int64s(name))
        return pa.concat_arrays([its.taken(name, rows) for its, rows in self._parts])
