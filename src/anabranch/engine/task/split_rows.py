"""Rows of hot keys that have travelled to this slot, by lane: origins, and what they may meet.

A lane is a partition that gets such rows. Lanes are worked on apart: should two of them be at one site, each
has its copies.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from anabranch.engine.task.wire import Value, decode
from anabranch.exchange.address import at_partition, partition_of
from anabranch.exchange.partition_set import PartitionSet
from anabranch.exchange.router import COPY, HOME_SHIFT
from anabranch.operators.rows.row_set import RowSet, int64s
from anabranch.plan.inputs import HASH, TIME

MARK = "mark"
"""Column of what a tag says beside the input, while rows are sorted out."""


@dataclass(slots=True)
class SplitRows:
    """What one lane gets of hot keys, by input."""

    origins: dict[int, RowSet] = field(default_factory=dict)
    met: dict[int, RowSet] = field(default_factory=dict)
    """The origins among them."""
    homes: PartitionSet = field(default_factory=PartitionSet)


def split_rows(
    rows: pa.RecordBatch, numbers: np.ndarray, values: tuple[tuple[Value, ...], ...]
) -> dict[int, SplitRows]:
    """Sort rows that have travelled out by lane, each back in the partition it belongs to.

    Parameters
    ----------
    numbers
        The input of each row.
    values
        Columns of every input on the wire.
    """
    marks = rows.column(MARK).to_numpy()
    homes = ((marks & (COPY - 1)) >> HOME_SHIFT) - 1
    lanes = partition_of(int64s(rows, HASH))
    addresses = at_partition(homes, int64s(rows, HASH))
    rows = rows.set_column(rows.schema.get_field_index(HASH), HASH, pa.array(addresses))
    found: dict[int, SplitRows] = {}
    for lane in np.unique(lanes).tolist():
        mine = found[lane] = SplitRows(homes=PartitionSet.of(np.unique(homes[lanes == lane]).tolist()))
        for number in np.unique(numbers[lanes == lane]).tolist():
            its = np.flatnonzero((lanes == lane) & (numbers == number))
            mine.met[number] = _decoded(rows, its, values[number])
            origins = its[marks[its] & COPY == 0]
            if len(origins) == len(its):
                mine.origins[number] = mine.met[number]
            elif len(origins):
                mine.origins[number] = _decoded(rows, origins, values[number])
    return found


def _decoded(rows: pa.RecordBatch, which: np.ndarray, values: tuple[Value, ...]) -> RowSet:
    return RowSet.sorted(decode(rows.take(pa.array(which)), values), TIME)


def stored_rows(split: Mapping[int, SplitRows]) -> dict[int, list[RowSet]]:
    """By input, what this slot keeps: a row is kept where it is an origin."""
    found: dict[int, list[RowSet]] = {}
    for rows in split.values():
        for number, origins in rows.origins.items():
            found.setdefault(number, []).append(origins)
    return found
