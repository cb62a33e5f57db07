"""Rows that were laid out otherwise: each slot takes its own, under new addresses, of the same batches."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa

from anabranch.engine.task.arrival.readdress import readdress
from anabranch.engine.task.blocks.block_writer import BlockWriter
from anabranch.exchange.address import PARTITIONS, at_partition, partition_of
from anabranch.operators.rows.row_set import RowSet, int64s
from anabranch.plan.inputs import HASH, TIME
from anabranch.plan.states.state_id import StateId, StateKind
from anabranch.plan.stations.readdressing import Readdressing
from anabranch.state import BlockMeta, PosixStorage, Stamp
from anabranch.state.block import map_block

OLD, NEW = (StateId.of(StateKind.STREAM, "a", content) for content in ("old", "new"))
SPREAD = Readdressing(OLD, NEW, "k", 0, ((TIME, TIME), ("id", "id")), ("k",), TIME)


def a_block(storage: PosixStorage, rows: int = 100) -> BlockMeta:
    """Rows in two partitions; some have no key."""
    rng = np.random.default_rng(3)
    keys = rng.integers(-(1 << 63), (1 << 63) - 1, rows)
    batch = pa.record_batch(
        {
            HASH: at_partition(rng.integers(7, 9, rows), keys),
            TIME: np.arange(rows),
            "k": pa.array(keys, mask=np.arange(rows) % 10 == 0),
            "id": np.arange(rows),
        }
    )
    files = BlockWriter(storage, stamp=Stamp(1, 4, 0), slot=0, unique="x")
    return files.write(OLD, RowSet.sorted(batch, TIME).batch, TIME, (2, 4))


def taken(
    storage: PosixStorage, block: BlockMeta, owned: np.ndarray, change: Readdressing, *, slot: int = 0
) -> list[BlockMeta]:
    files = BlockWriter(storage, stamp=Stamp(1, 5, 0), slot=slot, unique="y")
    return list(readdress([change], [block], storage=storage, owned=owned, files=files))


def test_every_row_with_a_key_goes_to_one_slot_under_the_address_of_its_key(tmp_path: Path) -> None:
    storage = PosixStorage(tmp_path)
    block, ids = a_block(storage), []
    for slot in range(2):
        owned = np.arange(PARTITIONS) % 2 == slot
        (found,) = taken(storage, block, owned, SPREAD, slot=slot)
        rows = map_block(storage, found)
        assert owned[partition_of(int64s(rows, HASH))].all()
        assert (np.diff(int64s(rows, HASH)) >= 0).all()
        assert (found.state, found.batch, found.last_batch) == (NEW, 2, 4)
        ids += rows.column("id").to_pylist()
    assert sorted(ids) == [i for i in range(100) if i % 10]


def test_rows_of_a_tree_on_one_site_all_get_its_address(tmp_path: Path) -> None:
    storage = PosixStorage(tmp_path)
    pinned = replace(SPREAD, address=None, pin=1 << 62, required=())
    (found,) = taken(storage, a_block(storage), np.ones(PARTITIONS, dtype=np.bool_), pinned)
    assert set(map_block(storage, found).column(HASH).to_pylist()) == {1 << 62}
    assert found.rows == 100


def test_partitions_that_were_discarded_are_not_taken_over(tmp_path: Path) -> None:
    storage = PosixStorage(tmp_path)
    block = a_block(storage)
    left = replace(block, partitions=tuple((p, n) for p, n in block.partitions if p == 7))
    everything = np.ones(PARTITIONS, dtype=np.bool_)
    (found,) = taken(storage, left, everything, SPREAD)
    here = map_block(storage, block)
    kept = (partition_of(int64s(here, HASH)) == 7) & here.column("k").is_valid().to_numpy(
        zero_copy_only=False
    )
    assert found.rows == int(kept.sum())
