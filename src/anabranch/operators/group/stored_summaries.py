"""Partial aggregates as columns: what a state keeps of many rows of one group and piece of time.

Each summary (`partial_aggregate`) has columns that hold its accumulator, one row per group and piece. Read
again, these columns add up as the rows would have.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from anabranch.operators.group.folds.partial_aggregate import (
    Accumulator,
    Count,
    ExactSum,
    FloatSum,
    Least,
    LeastWide,
    Moments,
    Summary,
)
from anabranch.operators.group.folds.range_fold import Folded, merged_moments_of
from anabranch.operators.group.folds.window_bounds import Ranges, Runs
from anabranch.operators.rows.row_set import RowSet


@dataclass(frozen=True, slots=True)
class Stored:
    """A summary that is read from the columns that hold it."""

    summary: Summary

    @property
    def names(self) -> tuple[str, ...]:
        """The columns. No column of a query begins so."""
        match self.summary:
            case Count(column):
                return (f"#count({column or '*'})",)
            case ExactSum(column, pieces):
                return tuple(f"#sum{i}/{pieces}({column})" for i in range(pieces))
            case FloatSum(column):
                return (f"#sum({column})",)
            case Moments(column):
                return tuple(f"#moment{i}({column})" for i in range(3))
            case Least(column, largest) | LeastWide(column, largest):
                return (f"#{'max' if largest else 'min'}({column})",)
        raise TypeError(f"no columns hold {self.summary}")

    @property
    def bytes_per_row(self) -> int:
        return 2 * self.summary.bytes_per_row

    def columns_of(self, known: Accumulator) -> list[pa.Array]:
        """The columns for accumulated windows."""
        if isinstance(self.summary, Moments):
            return [pa.array(column) for column in np.ascontiguousarray(known.T)]
        if isinstance(self.summary, ExactSum):
            return [pa.array(piece) for piece in known]
        return known if isinstance(self.summary, LeastWide) else [pa.array(known)]

    def empty(self, windows: int) -> Accumulator:
        return self.summary.empty(windows)

    def fold(self, rows: RowSet, ranges: Ranges, into: Accumulator) -> None:
        match self.summary:
            case Count():
                ExactSum(self.names[0], 1).fold(rows, ranges, into[np.newaxis])
            case ExactSum():
                for piece, name in enumerate(self.names):
                    ExactSum(name, 1).fold(rows, ranges, into[piece : piece + 1])
            case FloatSum():
                FloatSum(self.names[0]).fold(rows, ranges, into)
            case Least():  # the codes of a maximum are kept as complements
                Least(self.names[0], largest=False).fold(rows, ranges, into)
            case LeastWide(_, largest):
                LeastWide(self.names[0], largest).fold(rows, ranges, into)
            case Moments():
                rows.derived(self, lambda: self._moments(rows)).fold(ranges, into)

    def _moments(self, rows: RowSet) -> Folded:
        columns: list[Any] = [rows.batch.column(name).to_numpy() for name in self.names]
        return merged_moments_of(np.stack(columns, axis=1), Runs.of(rows))
