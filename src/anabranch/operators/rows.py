"""A set of rows of one state or one plan node, and the orders in which it can be probed."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from anabranch.operators.match import Side
from anabranch.operators.order import Int64s, Rows32, combine_hashes, order_by_hash
from anabranch.plan.layout import HASH
from anabranch.plan.local_plan import LocalNode


class RowSet:
    """Rows sorted by (routing hash, time); further orders are built once, when first probed."""

    __slots__ = ("_indexes", "batch")

    def __init__(self, batch: pa.RecordBatch) -> None:
        self.batch = batch
        self._indexes: dict[tuple[str, ...], tuple[Int64s, Rows32]] = {}

    @classmethod
    def sorted(cls, batch: pa.RecordBatch, time: str) -> RowSet:
        """Bring rows into the order every set of rows has."""
        order = order_by_hash(int64s(batch, HASH), int64s(batch, time))
        return cls(batch.take(pa.array(order)))

    def __len__(self) -> int:
        return int(self.batch.num_rows)

    def side(self, node: LocalNode, index: tuple[str, ...]) -> Side:
        """These rows as rows of `node`, in the order of the hash over the columns `index`."""
        times, deadlines = int64s(self.batch, node.max_time), int64s(self.batch, node.deadline)
        follows = node.max_time == node.deadline
        if not index:
            return Side(int64s(self.batch, HASH), None, times, deadlines, node.window_us, follows)
        if index not in self._indexes:
            self._indexes[index] = self._build_index(index, times)
        hashes, rows = self._indexes[index]
        return Side(hashes, rows, times, deadlines, node.window_us, follows)

    def _build_index(self, index: tuple[str, ...], times: Int64s) -> tuple[Int64s, Rows32]:
        columns = [self.batch.column(name) for name in index]
        hashes = combine_hashes([c.fill_null(0).to_numpy(zero_copy_only=False) for c in columns])
        order = order_by_hash(hashes, times)
        if any(c.null_count for c in columns):  # NULL equals nothing
            valid = np.logical_and.reduce([c.is_valid().to_numpy(zero_copy_only=False) for c in columns])
            order = order[valid[order]]
        return hashes[order], order


def int64s(batch: pa.RecordBatch, name: str) -> Int64s:
    """A column without NULLs as NumPy, without a copy."""
    values: Int64s = batch.column(name).to_numpy(zero_copy_only=True)
    return values


def concat_rows(batches: list[pa.RecordBatch]) -> pa.RecordBatch:
    """One batch from several of the same schema."""
    if len(batches) == 1:
        return batches[0]
    return pa.concat_batches(batches)


def equal_or_unknown_false(left: pa.Array, right: pa.Array) -> pa.Array:
    """Element-wise equality; NULL is not equal to anything."""
    return pc.fill_null(pc.equal(left, right), False)
