"""Blocks are described by their rows: times, deadlines, partitions."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from anabranch.engine.task.blocks.block_writer import BlockWriter
from anabranch.exchange.address import PARTITION_BITS
from anabranch.operators.rows.row_set import RowSet
from anabranch.plan.inputs import DEADLINE, HASH, MAX_TIME, TIME
from anabranch.state import PosixStorage
from anabranch.state.block import map_block
from anabranch.state.stamp import Stamp


@pytest.fixture
def writer(tmp_path: Path) -> BlockWriter:
    return BlockWriter(PosixStorage(tmp_path), stamp=Stamp(2, 7, 0), slot=3, unique="x")


def addresses(*partitions: int) -> list[int]:
    return [(p << (64 - PARTITION_BITS)) + i for i, p in enumerate(partitions)]


def joined(*rows: tuple[int, int, int]) -> pa.RecordBatch:
    """Rows by partition, time and deadline."""
    hashes = addresses(*(p for p, _, _ in rows))
    columns = {HASH: hashes, MAX_TIME: [t for _, t, _ in rows], DEADLINE: [d for _, _, d in rows]}
    return pa.record_batch({name: pa.array(values, pa.int64()) for name, values in columns.items()})


def test_a_block_of_a_stream_tells_its_times_and_partitions(writer: BlockWriter, tmp_path: Path) -> None:
    rows = pa.record_batch({HASH: pa.array(addresses(1, 1, 9)), TIME: pa.array([30, 10, 20])})
    block = writer.write("s", rows, TIME)
    assert (block.min_ts, block.max_ts, block.max_deadline) == (10, 30, 30)
    assert (block.partitions, block.slot, block.batch, block.last_batch) == (((1, 2), (9, 1)), 3, 7, 7)
    assert map_block(PosixStorage(tmp_path), block).equals(rows)


def test_rows_of_a_join_made_in_pieces_become_one_block_in_order(writer: BlockWriter, tmp_path: Path) -> None:
    ordered = RowSet.sorted(joined((9, 5, 8)), MAX_TIME).batch
    (block,) = writer.write_made({"j": [ordered, joined((1, 4, 99), (2, 6, 7))]})
    assert (block.rows, block.max_ts, block.max_deadline) == (3, 6, 99)
    stored = map_block(PosixStorage(tmp_path), block).column(HASH).to_pylist()
    assert stored == sorted(stored)


def test_two_blocks_of_a_state_have_two_names_and_discarded_ones_are_gone(
    writer: BlockWriter, tmp_path: Path
) -> None:
    kept, (spilled, rows) = (
        writer.write("j", joined((1, 2, 3)), MAX_TIME),
        writer.spill("j", joined((1, 2, 3))),
    )
    assert kept.name != spilled.name
    assert rows.num_rows == 1
    writer.discard([spilled])
    storage = PosixStorage(tmp_path)
    assert [name for name in storage.list("blocks") if name.endswith(".arrow")] == [f"blocks/{kept.name}"]
