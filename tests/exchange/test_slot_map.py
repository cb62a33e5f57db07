"""Every row gets to the slots of its partition, and to no other."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from anabranch.exchange.address import PARTITIONS, at_partition, partition_of
from anabranch.exchange.partition_map import PartitionMap
from anabranch.exchange.partition_set import PartitionSet
from anabranch.exchange.slot_map import SlotMap

ROWS = np.arange(PARTITIONS)
TAGS = np.zeros(len(ROWS), dtype=np.int32)
ADDRESSES = at_partition(ROWS, ROWS * 7919)


@given(st.integers(1, 9), st.integers(1, 4), st.frozensets(st.integers(0, PARTITIONS - 1)), st.data())
def test_a_partition_has_its_owners_slot_and_those_that_still_work_on_it(
    sites: int, slots: int, left: frozenset[int], data: st.DataObject
) -> None:
    slots = min(slots, sites)
    partition_map = PartitionMap.even(sites)
    guest = data.draw(st.integers(0, sites - 1))
    slot_map = SlotMap.of(partition_map, slots, [(guest, PartitionSet.of(left))])
    for partition in range(PARTITIONS):
        owner = partition_map.slot_of_site(partition_map.site_of_partition[partition], slots)
        expected = {owner} | ({partition_map.slot_of_site(guest, slots)} if partition in left else set())
        assert set(slot_map.slots_of[partition]) == expected
        assert slot_map.slots_of[partition][0] == owner, "the owner comes first"
    received = [np.flatnonzero(slot_map.rows_of(slot, ADDRESSES, TAGS)) for slot in range(slots)]
    assert sum(map(len, received)) == sum(map(len, slot_map.slots_of))
    for slot, rows in enumerate(received):
        assert all(slot in slot_map.slots_of[partition_of(ADDRESSES)[row]] for row in rows)
    assert slot_map.copies == any(len(s) > 1 for s in slot_map.slots_of)
