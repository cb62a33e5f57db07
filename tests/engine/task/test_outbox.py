"""What leaves a hop: held while it is little, else in blocks; waiting where its partition does."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from anabranch.engine.task.arrival.outbox import Outbox
from anabranch.engine.task.arrival.parcel import Content, opened
from anabranch.engine.task.blocks.block_writer import BlockWriter
from anabranch.exchange.address import PARTITIONS, partition_of
from anabranch.exchange.partition_map import PartitionMap
from anabranch.exchange.slot_map import SlotMap
from anabranch.operators.rows.row_set import int64s
from anabranch.plan.inputs import DEADLINE, HASH, MAX_TIME
from anabranch.plan.states.state_id import StateId, StateKind
from anabranch.state import PosixStorage, Stamp
from anabranch.state.block import map_block
from anabranch.state.paths import BLOCKS

SLOTS = 3
AB = StateId.of(StateKind.STATION, "a.b", 1)
BC = StateId.of(StateKind.STATION, "b.c", 2)


def joined_rows(rows: int, seed: int = 0) -> pa.RecordBatch:
    rng = np.random.default_rng(seed)
    times = rng.integers(0, 1_000, rows)
    addresses = rng.integers(-(1 << 63), (1 << 63) - 1, rows)
    return pa.record_batch({HASH: addresses, MAX_TIME: times, DEADLINE: times + 10, "id": np.arange(rows)})


@pytest.fixture
def storage(tmp_path: Path) -> PosixStorage:
    return PosixStorage(tmp_path)


def an_outbox(storage: PosixStorage, *, piece: int, spilled: frozenset[int] = frozenset()) -> Outbox:
    files = BlockWriter(storage, stamp=Stamp(1, 4, 0), slot=0, unique="x")
    slot_map = SlotMap.of(PartitionMap.even(SLOTS), SLOTS)
    return Outbox(files, slot_map, spilled=spilled, piece=piece)


@pytest.mark.parametrize(
    ("piece", "contents"),
    [
        pytest.param(1 << 20, {Content.ROWS}, id="little is held"),
        pytest.param(5_000, {Content.BLOCK, Content.ROWS}, id="full pieces are blocks, the rest is held"),
        pytest.param(1, {Content.BLOCK}, id="everything is in blocks"),
    ],
)
def test_every_row_reaches_the_slot_that_owns_its_partition_once(
    storage: PosixStorage, piece: int, contents: set[Content]
) -> None:
    outbox, owner_of = an_outbox(storage, piece=piece), PartitionMap.even(SLOTS).slot_of_partition(SLOTS)
    sent = [joined_rows(70, seed) for seed in range(5)]
    for batch in sent:
        outbox.add(AB, batch)
    assert outbox.waiting() == []
    parcels, reached = list(outbox.parcels()), []
    assert {parcel.content for parcel in parcels} == contents
    for slot in range(SLOTS):
        came = opened(parcel for parcel in parcels if parcel.slot == slot)
        batches = [*came.rows.get(AB, ()), *(map_block(storage, b) for b in came.blocks.get(AB, ()))]
        for batch in batches:
            assert {owner_of[p] for p in partition_of(int64s(batch, HASH)).tolist()} == {slot}
            reached += batch.column(HASH).to_pylist()
    assert sorted(reached) == sorted(h for batch in sent for h in batch.column(HASH).to_pylist())


def test_rows_of_spilled_partitions_wait_and_do_not_travel(storage: PosixStorage) -> None:
    spilled = frozenset(range(0, PARTITIONS, 2))
    outbox = an_outbox(storage, piece=2_000, spilled=spilled)
    for seed in range(3):
        outbox.add(AB, joined_rows(50, seed))
    waiting = outbox.waiting()
    assert {block.state for block in waiting} == {AB.waiting}
    assert all(partition in spilled for block in waiting for partition, _ in block.partitions)
    came = outbox.arrived()
    travelled = [*came.rows[AB], *(map_block(storage, block) for block in came.blocks[AB])]
    partitions = {p for batch in travelled for p in partition_of(int64s(batch, HASH)).tolist()}
    assert partitions.isdisjoint(spilled)
    assert sum(block.rows for block in waiting) + sum(b.num_rows for b in travelled) == 150


def test_what_a_query_sent_that_has_ended_is_taken_back(storage: PosixStorage) -> None:
    outbox = an_outbox(storage, piece=2_000, spilled=frozenset({0, 1, 2}))
    for state in (AB, BC, AB):
        outbox.add(state, joined_rows(200))
    outbox.discard([AB])
    assert {block.state for block in outbox.waiting()} == {BC.waiting}
    assert {parcel.state for parcel in outbox.parcels()} == {BC}
    assert not [name for name in storage.list(BLOCKS) if "a.b" in name]
