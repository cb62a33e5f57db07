"""Hot groups: what each lane does for them.

    new rows of the group ──► lane 0   kept as rows, or as partial aggregates of panes,
                          ──► lane 1   in blocks of the group's partition
    results               ◄── windows of GROUP BY: the owner adds up what all lanes have kept
                          ◄── one result per row: each lane answers rows that fall to it, from all blocks

A row is never final in the step in which it comes, so that blocks are where lanes and owner meet: no second
shuffle is needed, and nothing changes but who works when a group becomes hot or cools.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import TYPE_CHECKING

import numpy as np

from anabranch.adapt.routing.spreadable import grouped_states
from anabranch.engine.task.arrival.split_rows import SplitRows
from anabranch.exchange.partition_set import NOTHING, PartitionSet
from anabranch.exchange.split_router import HotKey
from anabranch.operators.group.answered_share import EVERYTHING, AnsweredShare
from anabranch.plan.aggregate import WindowNode

if TYPE_CHECKING:
    from anabranch.engine.task.slot_task import SlotTask


def left_to_lanes(hot: Collection[HotKey], window: WindowNode) -> AnsweredShare:
    """What the owner of a partition answers: all but hot groups, where each row has a result."""
    if window.grouped is not None:
        return EVERYTHING
    return AnsweredShare(tuple(sorted(key.address for key in hot if window.state in key.states)))


def lane_shares(
    hot: Collection[HotKey], state: str, lane: int
) -> Iterator[tuple[AnsweredShare, PartitionSet]]:
    """What a lane answers of a state's hot groups, and the partitions of these."""
    together: dict[tuple[int, ...], list[HotKey]] = {}
    for key in hot:
        if state in key.states and lane in key.lanes:
            together.setdefault(key.lanes, []).append(key)
    for lanes, keys in together.items():
        addresses = tuple(sorted(key.address for key in keys))
        homes = PartitionSet.of(key.home for key in keys)
        yield AnsweredShare(addresses, lanes.index(lane), len(lanes)), homes


def with_answering_lanes(
    task: SlotTask, owned: np.ndarray, split: Mapping[int, SplitRows]
) -> tuple[dict[int, SplitRows], PartitionSet]:
    """Lanes of a slot with the rows they got, also those that got none and have results to find.

    Beside them the partitions that some lane reads: windows of GROUP BY only take rows in.
    """
    found, read = dict(split), NOTHING
    grouped = {group.states: group for group in grouped_states(task.layout)} if task.hot else {}
    for key in task.hot:
        group = grouped.get(key.states)
        lanes = [lane for lane in key.lanes if owned[lane]]
        if lanes and (group is None or group.stays):
            read |= PartitionSet.of([key.home])
        if group is not None and group.stays:
            found |= {lane: SplitRows() for lane in lanes if lane not in found}
    return found, read
