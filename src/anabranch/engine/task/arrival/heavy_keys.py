"""Keys that many of a slot's new rows have: what hot keys are found from."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

import pyarrow as pa

from anabranch.adapt.routing.spreadable import grouped_state
from anabranch.engine.task.arrival.split_rows import SplitRows
from anabranch.operators.rows.arrays import Int64s
from anabranch.operators.rows.row_set import RowSet, int64s
from anabranch.operators.rows.run_lengths import long_runs
from anabranch.plan.inputs import HASH
from anabranch.plan.states.state_id import StateId

if TYPE_CHECKING:
    from anabranch.engine.task.slot_task import SlotTask

LEAST_ROWS = 64
"""Rows that a key must have in a batch and input to be worth telling."""
LEAST_SHARE = 8
"""It must have the rows that an even share of so many times the sites would have."""


def heavy_keys(
    task: SlotTask,
    new: Mapping[int, RowSet],
    split: Mapping[int, SplitRows],
    kept: Mapping[StateId, Sequence[pa.RecordBatch]],
) -> dict[str, list[tuple[int, int]]]:
    """By state in which keys may be hot: (hash, rows) of heavy keys, split or not.

    Parameters
    ----------
    kept
        New rows of intermediate states: results of joins that are grouped among them.
    """
    wanted = _states(task)
    found: dict[str, list[tuple[int, int]]] = {}
    for state, hashes, least in _hashes(task, new, split, kept):
        if state in wanted and (runs := long_runs(hashes, least)):
            found.setdefault(state, []).extend(runs)
    return found


def _states(task: SlotTask) -> set[str]:
    """States in which keys may be hot."""
    layout, found = task.layout, set[str]()
    for routed in layout.queries:
        if routed.is_hashed:
            found |= {layout.inputs[i].state for i in routed.inputs}
        if (state := grouped_state(layout, routed)) is not None:
            found.add(state)
    return found


def _hashes(
    task: SlotTask,
    new: Mapping[int, RowSet],
    split: Mapping[int, SplitRows],
    kept: Mapping[StateId, Sequence[pa.RecordBatch]],
) -> Iterator[tuple[str, Int64s, int]]:
    """By state, hashes of new rows in ascending order, and how many are worth telling."""
    inputs, share = task.layout.inputs, LEAST_SHARE * task.partition_map.sites
    for number, rows in new.items():
        yield inputs[number].state, rows.int64s(HASH), max(LEAST_ROWS, len(rows) // share)
    # What is spread has few rows in every lane; it is told whole, or it would seem to cool.
    for lane in split.values():
        for number, rows in lane.origins.items():
            yield inputs[number].state, rows.int64s(HASH), 1
    for state, batches in kept.items():
        least = max(LEAST_ROWS, sum(batch.num_rows for batch in batches) // share)
        for batch in batches:
            yield state, int64s(batch, HASH), least
