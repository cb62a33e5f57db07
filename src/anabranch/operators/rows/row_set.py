"""A set of rows of one state or one plan node, and the orders in which it can be probed."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from anabranch.exchange.address import partition_of
from anabranch.operators.join.match import Side
from anabranch.operators.rows.arrays import Int64s, Rows32
from anabranch.operators.rows.index_memory import INDEX_MEMORY, Indexes
from anabranch.operators.rows.order import by_hash, combine_hashes
from anabranch.operators.rows.pairs import equal_pairs
from anabranch.operators.rows.shared_work import SHARED_WORK
from anabranch.plan.inputs import HASH, SEQUENCE
from anabranch.plan.nodes import Operand

T = TypeVar("T")
_INT64 = pa.int64()
_IN_ORDER = b"in order"
"""Metadata of batches whose rows ascend by (routing hash, time)."""


class RowSet:
    """Rows with the orders in which they are probed: built once, when first needed.

    Rows of streams, and others that are probed by their routing hash, are sorted by (routing hash, time).
    """

    __slots__ = ("_columns", "_derived", "_indexes", "batch", "is_old", "is_shared")

    def __init__(self, batch: pa.RecordBatch, *, is_shared: bool = False) -> None:
        self.batch = batch
        self.is_shared = is_shared
        """Whether several sites may read them: what is made of them is made for all."""
        self.is_old = False
        """In a track that ends: whether the rows are from before its end, or have a member that is."""
        self._columns: dict[str, Int64s] = {}
        self._indexes = Indexes()
        self._derived: dict[Hashable, Any] = {}

    @classmethod
    def sorted(cls, batch: pa.RecordBatch, time: str) -> RowSet:
        """Bring rows into the order of their routing hash."""
        hashes, times = int64s(batch, HASH), int64s(batch, time)
        sequence = int64s(batch, SEQUENCE) if SEQUENCE in batch.schema.names else None
        _, order = by_hash(hashes, times, sequence)
        return cls(batch.take(pa.array(order)).replace_schema_metadata({_IN_ORDER: b""}))

    @classmethod
    def known_in_order(cls, batch: pa.RecordBatch) -> RowSet:
        """Rows that ascend by (routing hash, time) as they are."""
        return cls(batch.replace_schema_metadata({_IN_ORDER: b""}))

    @classmethod
    def merged(cls, batches: list[pa.RecordBatch], time: str) -> RowSet:
        """One set from several of the same state, in order unless none of them is."""
        rows = concat_rows(batches)
        loose = len(batches) == 1 or not any(RowSet(batch).in_order for batch in batches)
        return cls(rows) if loose else cls.sorted(rows, time)

    @property
    def in_order(self) -> bool:
        """Whether the rows are known to ascend by (routing hash, time)."""
        return _IN_ORDER in (self.batch.schema.metadata or ())

    def as_old(self) -> RowSet:
        """The same rows, with the same indexes, told to be old."""
        rows = RowSet(self.batch, is_shared=self.is_shared)
        rows._columns, rows._indexes, rows._derived = self._columns, self._indexes, self._derived
        rows.is_old = True
        return rows

    def within(self, partitions: npt.NDArray[np.bool_]) -> RowSet:
        """The rows of some partitions."""
        batch = rows_in(self.batch, partitions)
        if batch is self.batch:
            return self
        rows = RowSet(batch)
        return rows.as_old() if self.is_old else rows

    def part(self, partitions: npt.NDArray[np.bool_]) -> RowSet:
        """The same, without a copy where they lie together, as those of a site do in a map without moves."""
        mine = partitions[partition_of(self.int64s(HASH))]
        rows, first = int(np.count_nonzero(mine)), int(mine.argmax()) if len(mine) else 0
        if rows == len(self):
            return self
        if mine[first : first + rows].all():
            return RowSet(self.batch.slice(first, rows))
        return RowSet(self.batch.filter(pa.array(mine)))

    def __len__(self) -> int:
        return int(self.batch.num_rows)

    def int64s(self, name: str) -> Int64s:
        """A column without NULLs as NumPy."""
        if name not in self._columns:
            self._columns[name] = int64s(self.batch, name)
        return self._columns[name]

    def taken(self, name: str, rows: Rows32) -> pa.Array:
        """The values of a column at some rows."""
        return self.batch.column(name).take(pa.array(rows))

    def agreeing(
        self,
        names: Sequence[str],
        rows: Rows32,
        other: RowSet,
        other_names: Sequence[str],
        other_rows: Rows32,
    ) -> tuple[Rows32, Rows32]:
        """The pairs of our rows with another set's whose values in these columns are equal, and known."""
        if all(map(self.is_plain, names)) and all(map(other.is_plain, other_names)):
            ours, theirs = tuple(map(self.int64s, names)), tuple(map(other.int64s, other_names))
            return equal_pairs(ours, rows, theirs, other_rows)
        for name, other_name in zip(names, other_names, strict=True):
            same = equal_or_unknown_false(self.taken(name, rows), other.taken(other_name, other_rows))
            if same.true_count < len(same):
                which = same.to_numpy(zero_copy_only=False)
                rows, other_rows = rows[which], other_rows[which]
        return rows, other_rows

    def is_plain(self, name: str) -> bool:
        """Whether a column is as NumPy has it: 64-bit integers, none of them NULL."""
        if name in self._columns:
            return True
        column = self.batch.column(name)
        return bool(column.type == _INT64 and column.null_count == 0)

    def derived(self, key: Hashable, make: Callable[[], T]) -> T:
        """What was made of these rows under `key`: made once, kept as long as the rows are."""
        if key not in self._derived:
            made = self._derived[key] = SHARED_WORK.done(make) if self.is_shared else make()
            if isinstance(made, RowSet):
                made.is_shared = self.is_shared
        found: T = self._derived[key]
        return found

    def side(self, node: Operand, index: tuple[str, ...]) -> Side:
        """These rows as rows of `node`, in the order of the hash over the columns `index`."""
        times, deadlines = self.int64s(node.max_time), self.int64s(node.deadline)
        longest = self._longest(node.max_time, node.deadline)
        if not index and self.in_order:
            return Side(self.int64s(HASH), None, times, deadlines, node.window_us, longest)
        index = index or (HASH,)
        hashes, rows = self.index(index, lambda: self._build_index(index, times))
        return Side(hashes, rows, times, deadlines, node.window_us, longest)

    def index(
        self, name: tuple[str, ...], build: Callable[[], tuple[Int64s, Rows32]]
    ) -> tuple[Int64s, Rows32]:
        """Numbers in ascending order, and the rows behind them: built when there is none of this name."""
        found = self._indexes.get(name)
        if found is None:
            found = self._indexes[name] = SHARED_WORK.done(build) if self.is_shared else build()
            INDEX_MEMORY.built(self._indexes)
        else:
            INDEX_MEMORY.used(self._indexes)
        return found

    def _longest(self, time: str, deadline: str) -> int:
        """How far a deadline is from its time, at most."""
        if time == deadline or not len(self):
            return 0
        return self.derived(
            ("longest", time, deadline), lambda: int((self.int64s(deadline) - self.int64s(time)).max())
        )

    def _build_index(self, index: tuple[str, ...], times: Int64s) -> tuple[Int64s, Rows32]:
        columns = [self.batch.column(name) for name in index]
        filled = [c.fill_null(0) if c.null_count else c for c in columns]  # filling nothing is slow, too
        hashes = combine_hashes([c.to_numpy(zero_copy_only=False) for c in filled])
        hashes, order = by_hash(hashes, times)
        if any(c.null_count for c in columns):  # NULL equals nothing
            valid = np.logical_and.reduce([c.is_valid().to_numpy(zero_copy_only=False) for c in columns])
            return hashes[valid[order]], order[valid[order]]
        return hashes, order


def int64s(batch: pa.RecordBatch, name: str) -> Int64s:
    """A column without NULLs as NumPy, without a copy."""
    values: Int64s = batch.column(name).to_numpy(zero_copy_only=True)
    return values


def rows_in(rows: pa.RecordBatch, partitions: npt.NDArray[np.bool_]) -> pa.RecordBatch:
    """Rows of some partitions, in the same order."""
    mine = partitions[partition_of(int64s(rows, HASH))]
    return rows if mine.all() else rows.filter(pa.array(mine))


def concat_rows(batches: list[pa.RecordBatch]) -> pa.RecordBatch:
    """One batch from several of the same state.

    Their columns differ in order and number after a restart with other queries: what not all of
    them have, nobody reads any more.
    """
    if len(batches) == 1:
        return batches[0]
    first = batches[0].schema.names
    shared = [name for name in first if all(name in b.schema.names for b in batches)]
    rows = pa.concat_batches([b if b.schema.names == shared else b.select(shared) for b in batches])
    return rows.replace_schema_metadata(None)


def equal_or_unknown_false(left: pa.Array, right: pa.Array) -> pa.Array:
    """Element-wise equality; NULL is not equal to anything."""
    same = pc.equal(left, right)
    return pc.fill_null(same, False) if same.null_count else same
