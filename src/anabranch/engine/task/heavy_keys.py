"""Keys that many of a slot's new rows have: what hot keys are found from."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from anabranch.engine.task.split_rows import SplitRows
from anabranch.operators.rows.row_set import RowSet
from anabranch.operators.rows.run_lengths import long_runs
from anabranch.plan.inputs import HASH

if TYPE_CHECKING:
    from anabranch.engine.task.slot_task import SlotTask

LEAST_ROWS = 64
"""Rows that a key must have in a batch and input to be worth telling."""
LEAST_SHARE = 8
"""It must have the rows that an even share of so many times the sites would have."""


def heavy_keys(
    task: SlotTask, new: Mapping[int, RowSet], split: Mapping[int, SplitRows]
) -> dict[str, list[tuple[int, int]]]:
    """By state of an input that joins are partitioned by: (hash, rows) of heavy keys, split or not."""
    joined = {i for routed in task.layout.queries if routed.is_hashed for i in routed.inputs}
    found: dict[str, list[tuple[int, int]]] = {}
    share = LEAST_SHARE * task.partition_map.sites
    sets = [(number, rows, max(LEAST_ROWS, len(rows) // share)) for number, rows in new.items()]
    # What is spread has few rows in every lane; it is told whole, or it would seem to cool.
    sets += [(number, rows, 1) for lane in split.values() for number, rows in lane.origins.items()]
    for number, rows, least in sets:
        if number in joined and (runs := long_runs(rows.int64s(HASH), least)):
            found.setdefault(task.layout.inputs[number].state, []).extend(runs)
    return found
