"""Rows for measuring kernels: a share of them on one hot key, their times in some order.

Every row has a time of its own, far enough from all others. So a window shorter than that holds as many rows
of a hot key as of any other: what a kernel makes of the rows does not grow with the hot share.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np
import pyarrow as pa

from anabranch.operators.group.final_rows import FinalRows
from anabranch.operators.rows.arrays import Int64s
from anabranch.operators.rows.row_set import RowSet, int64s
from anabranch.plan.inputs import DEADLINE, HASH, TIME

TimeOrder = Literal["sorted", "reversed", "random"]
ORDERS: tuple[TimeOrder, ...] = ("sorted", "reversed", "random")
SPACING_US = 1000
"""Between the times of two rows."""
ALONE_US = SPACING_US // 2
"""A window that holds one row, whatever its key."""
TEXTS = 1000
"""Different texts that are no keys."""


@dataclass(frozen=True)
class KernelLoad:
    """So many rows, of which a share is on one key; the others have keys of their own."""

    rows: int
    hot: float
    order: TimeOrder
    seed: int = 1

    @cached_property
    def times(self) -> Int64s:
        """In the order of arrival."""
        times: Int64s = np.arange(self.rows, dtype=np.int64) * SPACING_US
        if self.order == "reversed":
            times = times[::-1].copy()
        elif self.order == "random":
            np.random.default_rng(self.seed).shuffle(times)
        return times

    @cached_property
    def hashes(self) -> Int64s:
        rng = np.random.default_rng(self.seed + 1)
        hashes = rng.integers(-(2**63), 2**63 - 1, self.rows)
        hashes[rng.random(self.rows) < self.hot] = hashes[0]
        return hashes

    @cached_property
    def batch(self) -> pa.RecordBatch:
        """The rows as they arrive: a number and a text as keys, and values to aggregate."""
        rng = np.random.default_rng(self.seed + 2)
        return pa.record_batch(
            {
                HASH: self.hashes,
                TIME: self.times,
                DEADLINE: self.times + ALONE_US,
                "number": self.hashes,
                "text": pa.array(self.hashes).cast(pa.large_string()),
                "x": rng.integers(-(2**40), 2**40, self.rows),
                "f": rng.random(self.rows),
                "t": pa.array(rng.integers(0, TEXTS, self.rows)).cast(pa.large_string()),
            }
        )

    @cached_property
    def block(self) -> pa.RecordBatch:
        """The rows as a block keeps them."""
        return RowSet.sorted(self.batch, TIME).batch

    def parts(self, count: int) -> Sequence[pa.RecordBatch]:
        """As several blocks, each of the rows that arrived one after the other."""
        size = -(-self.rows // count)
        return [RowSet.sorted(self.batch.slice(at, size), TIME).batch for at in range(0, self.rows, size)]

    def final(self) -> FinalRows:
        """All rows of one block, which have become final; nothing is known of the block yet."""
        rows = RowSet(self.block)
        every = np.arange(len(rows))
        return FinalRows(
            [rows], np.zeros_like(every), every, int64s(self.block, HASH), int64s(self.block, TIME)
        )
