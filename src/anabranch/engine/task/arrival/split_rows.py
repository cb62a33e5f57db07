"""Rows of hot keys that have travelled to this slot, by lane: origins, and what they may meet.

A lane is a partition that gets such rows. Lanes are worked on apart: should two of them be at one site, each
has its copies.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from anabranch.engine.task.arrival.wire import decode
from anabranch.exchange.address import at_partition, partition_of
from anabranch.exchange.partition_set import PartitionSet
from anabranch.exchange.router import COPY, HOME_SHIFT
from anabranch.operators.rows.row_set import RowSet, int64s
from anabranch.plan.inputs import HASH, TIME, field_column
from anabranch.plan.logical import ARRIVED

if TYPE_CHECKING:
    from anabranch.engine.task.slot_task import SlotTask

MARK = "mark"
"""Column of what a tag says beside the input, while rows are sorted out."""


@dataclass(slots=True)
class SplitRows:
    """What one lane gets of hot keys, by input."""

    origins: dict[int, RowSet] = field(default_factory=dict)
    met: dict[int, RowSet] = field(default_factory=dict)
    """The origins among them."""
    homes: PartitionSet = field(default_factory=PartitionSet)


def split_rows(rows: pa.RecordBatch, numbers: np.ndarray, task: SlotTask) -> dict[int, SplitRows]:
    """Sort rows that have travelled out by lane, each back in the partition it belongs to.

    Parameters
    ----------
    numbers
        The input of each row.
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
            mine.met[number] = _decoded(rows, its, task, number)
            origins = its[marks[its] & COPY == 0]
            if len(origins) == len(its):
                mine.origins[number] = mine.met[number]
            elif len(origins):
                mine.origins[number] = _decoded(rows, origins, task, number)
    return found


def _decoded(rows: pa.RecordBatch, which: np.ndarray, task: SlotTask, number: int) -> RowSet:
    decoded = decode(rows.take(pa.array(which)), task.wire.values[number])
    return RowSet.sorted(with_batch(decoded, task, number), TIME)


def with_batch(rows: pa.RecordBatch, task: SlotTask, number: int) -> pa.RecordBatch:
    """New rows of an input with the batch in which they came, where somebody wants to know."""
    if ARRIVED not in task.layout.inputs[number].fields:
        return rows
    batches = pa.array(np.full(rows.num_rows, task.batch, dtype=np.int64))
    return rows.append_column(field_column(ARRIVED), batches)


def stored_rows(split: Mapping[int, SplitRows]) -> dict[int, list[RowSet]]:
    """By input, what this slot keeps: a row is kept where it is an origin."""
    found: dict[int, list[RowSet]] = {}
    for rows in split.values():
        for number, origins in rows.origins.items():
            found.setdefault(number, []).append(origins)
    return found
