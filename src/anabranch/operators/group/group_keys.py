"""Groups: whether rows with equal hashes have equal keys, and exact numbers where they do not.

The routing hash of a group is no proof of its keys: several keys, wide keys and NULL fold into 64 bits.
NULL equals NULL here, NaN equals NaN, and -0.0 equals 0.0.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from anabranch.operators.rows.arrays import Int64s
from anabranch.operators.rows.column_codes import Flags, has_codes, ranks, to_codes, validity
from anabranch.operators.rows.row_set import RowSet, int64s
from anabranch.plan.aggregate import WindowNode
from anabranch.plan.inputs import HASH


def mixed_hashes(rows: RowSet, node: WindowNode) -> Int64s:
    """Hashes of a set of rows that stand for several keys; mostly none. Found once per set."""
    if needs_no_proof(rows, node):
        return np.empty(0, dtype=np.int64)
    return rows.derived(("mixed", node.keys), lambda: _mixed_hashes(rows, node.keys))


def needs_no_proof(rows: RowSet, node: WindowNode) -> bool:
    """Whether equal hashes are equal keys: one key of 64 bits, hashed one to one, and no NULL."""
    return node.proved and not any(rows.batch.column(k).null_count for k in node.keys)


def same_keys(left: RowSet, left_at: Int64s, right: RowSet, right_at: Int64s, keys: Sequence[str]) -> Flags:
    """Whether rows of two sets, pair by pair, belong to one group."""
    same = np.ones(len(left_at), dtype=bool)
    for key in keys:
        ours = _comparable(left, key).take(pa.array(left_at))
        theirs = _comparable(right, key).take(pa.array(right_at))
        equal = pc.equal(ours, theirs).fill_null(False)
        both_null = pc.and_(ours.is_null(), theirs.is_null())
        same &= pc.or_(equal, both_null).to_numpy(zero_copy_only=False)
    return same


def group_numbers(batch: pa.RecordBatch, keys: Sequence[str]) -> Int64s:
    """A number per row that is the same exactly where all keys are."""
    numbers = np.zeros(batch.num_rows, dtype=np.int64)
    for key in keys:
        column = batch.column(key)
        codes = to_codes(column) if has_codes(column.type) else ranks(column)[0]
        # NULL gets a number of its own below those of the values.
        _, values = np.unique(codes, return_inverse=True)
        values = np.where(validity(column), values + 1, 0)
        _, numbers = np.unique(numbers * (int(values.max(initial=0)) + 1) + values, return_inverse=True)
    return numbers.astype(np.int64)


def _mixed_hashes(rows: RowSet, keys: Sequence[str]) -> Int64s:
    hashes = int64s(rows.batch, HASH)
    later = np.flatnonzero(hashes[1:] == hashes[:-1]) + 1
    different = later[~same_keys(rows, later - 1, rows, later, keys)]
    return np.unique(hashes[different])


def _comparable(rows: RowSet, key: str) -> pa.Array:
    column = rows.batch.column(key)
    if not pa.types.is_floating(column.type):
        return column
    return rows.derived(("codes", key), lambda: pa.array(to_codes(column), mask=~validity(column)))
