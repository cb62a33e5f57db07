"""Partitions take turns in memory, and every one gets its turn."""

from __future__ import annotations

import numpy as np
import pytest

from anabranch.adapt.memory.memory_state import MemoryState, choose_spilled
from anabranch.exchange.address import PARTITIONS
from anabranch.exchange.partition_map import PartitionMap

BUDGET = 1 << 20
"""Bytes of a site."""


@pytest.mark.parametrize("in_memory", [1, 2, 3, 7, 16, 17, 100])
@pytest.mark.parametrize("sites", [1, 2, 5])
def test_every_partition_comes_in_within_one_turn_of_the_queue(in_memory: int, sites: int) -> None:
    state = MemoryState()
    here = PartitionMap.even(sites)
    sizes = np.full(PARTITIONS, BUDGET // in_memory, dtype=np.int64)
    per_site = -(-PARTITIONS // sites)
    seen: set[int] = set()
    for batch in range(2 + 2 * -(-per_site // in_memory)):
        state, _ = choose_spilled(state, batch, partition_map=here, sizes=sizes, budget=BUDGET)
        seen |= set(range(PARTITIONS)) - state.admission().spilled
    assert seen == set(range(PARTITIONS))


def test_it_is_told_when_the_number_of_partitions_on_disk_changes_and_not_at_every_turn() -> None:
    state, here = MemoryState(), PartitionMap.even(2)

    def told(batch: int, in_memory: int) -> list[tuple[int, int]]:
        nonlocal state
        sizes = np.full(PARTITIONS, BUDGET // in_memory, dtype=np.int64)
        before = state.admission().spilled
        state, events = choose_spilled(state, batch, partition_map=here, sizes=sizes, budget=BUDGET)
        assert state.admission().spilled != before, "partitions take turns all the same"
        return [(event.data["site"], event.data["spilled"] - event.data["activated"]) for event in events]

    assert told(0, 8) == [(0, PARTITIONS // 2 - 8), (1, PARTITIONS // 2 - 8)]
    assert [told(batch, 8) for batch in range(1, 9)] == [[]] * 8
    assert told(9, 4) == [(0, 4), (1, 4)]
    assert told(10, 4) == []
