"""Slices of blocks have the rows of the wanted partitions, and ranges for merging stay within their bound."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from anabranch.engine.task.blocks.block_slices import ranges_within, slice_block
from anabranch.engine.task.blocks.open_blocks import OpenBlock
from anabranch.exchange.address import PARTITION_BITS, PARTITIONS
from anabranch.exchange.partition_counts import partition_counts
from anabranch.exchange.partition_set import PartitionSet
from anabranch.operators.rows.row_set import RowSet, int64s, rows_in
from anabranch.plan.inputs import HASH, TIME
from anabranch.state.block import BlockMeta

BYTES_PER_ROW = 16


def block(partitions: list[int]) -> OpenBlock:
    hashes = np.array([p << (64 - PARTITION_BITS) for p in partitions], dtype=np.uint64).astype(np.int64)
    times = np.arange(len(partitions), dtype=np.int64)
    rows = RowSet.sorted(pa.RecordBatch.from_pydict({HASH: hashes, TIME: times}), TIME)
    rows_of = partition_counts(int64s(rows.batch, HASH))
    meta = BlockMeta("b", "s", 0, 0, 0, len(rows), BYTES_PER_ROW * len(rows), "", 0, 0, 0)
    return OpenBlock(meta, rows, PartitionSet.where(rows_of > 0), rows_of)


def mask(partitions: list[int]) -> np.ndarray:
    return np.isin(np.arange(PARTITIONS), partitions)


some = st.lists(st.sampled_from((0, 1, 2, 127, 128, 129, 255)), max_size=20)


@given(some, some)
def test_a_slice_has_the_rows_of_the_wanted_partitions_in_the_same_order(
    held: list[int], wanted: list[int]
) -> None:
    found, expected = slice_block(block(held), mask(wanted)), rows_in(block(held).rows.batch, mask(wanted))
    assert (found is None) == (expected.num_rows == 0)
    if found is not None:
        assert found.rows.batch.equals(expected)
        assert found.rows_of.sum() == len(found.rows)


@given(some, some)
def test_rows_in_no_order_are_sliced_too(held: list[int], wanted: list[int]) -> None:
    shuffled = block(held)
    batch = shuffled.rows.batch.take(np.arange(len(held))[::-1].copy()).replace_schema_metadata(None)
    found = slice_block(replace(shuffled, rows=RowSet(batch)), mask(wanted))
    expected = rows_in(batch, mask(wanted))
    assert expected.num_rows == 0 if found is None else found.rows.batch.equals(expected)


def test_neighbours_are_sliced_without_a_copy() -> None:
    whole = block([3, 4, 4, 5, 9])
    found = slice_block(whole, mask([4, 5]))
    assert found is not None
    address = whole.rows.batch.column(HASH).buffers()[1].address
    assert found.rows.batch.column(HASH).buffers()[1].address == address


@given(some, some, st.integers(1, 200))
def test_ranges_cover_the_wanted_partitions_once_and_keep_to_their_bound(
    held: list[int], wanted: list[int], most: int
) -> None:
    whole = block(held)
    ranges = list(ranges_within([whole, whole], mask(wanted), most))
    covered = np.sum(ranges, axis=0) if ranges else np.zeros(PARTITIONS)
    assert (covered == mask(wanted) & (whole.rows_of > 0)).all()
    for found in ranges:
        assert found.sum() == 1 or 2 * BYTES_PER_ROW * whole.rows_of[found].sum() <= most


@pytest.mark.parametrize("most", [None, 1 << 30])
def test_without_a_tight_bound_all_is_one_range(most: int | None) -> None:
    assert len(list(ranges_within([block([1, 7, 200])], mask([1, 7, 200]), most))) == 1
