"""New rows that a track which ends at another site reads from many small files, gathered into few sets.

The sender of a parallel track is sent the new rows of the partitions that have left it, and would insert
them into its states (D-CAPE, section 3.2). Here their owners keep them, each in files of its own;
probing those one by one would cost the sender several times what its own would. So a worker process puts
them together, as compaction would, and keeps them for the next batch. Nothing of it is durable: it is
computed from the open blocks, and can be forgotten at any time.
"""

from __future__ import annotations

import time
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from anabranch.engine.task.blocks.open_blocks import UNUSED_S, OpenBlock
from anabranch.exchange.address import PARTITIONS
from anabranch.exchange.partition_counts import partition_counts
from anabranch.operators.rows.row_set import RowSet, concat_rows, rows_in
from anabranch.plan.inputs import HASH
from anabranch.state.storage import Storage

Key = tuple[Hashable, ...]
GROWTH = 2
"""A set is put together with the next unless it is so many times as big: sizes grow like powers of two."""
ENOUGH = 1 << 17
"""Rows of a set that is large enough: copying it once more would hold up the batch."""
SPARE = 2
"""Rows may stay in sets after their blocks have expired, since nothing in a window meets them any more: until
they are half of all."""


@dataclass(slots=True)
class _Gathered:
    """The rows of all batches up to the last, whatever files they are in by now."""

    asked: int = -1
    """Batch for which they were wanted last."""
    asked_s: float = 0.0
    """When."""
    last: int = -1
    sets: list[RowSet] = field(default_factory=list)
    """From the oldest batches to the newest."""
    rows_of: np.ndarray = field(default_factory=lambda: np.zeros(PARTITIONS, dtype=np.int64))
    """Rows by partition."""
    arrived: RowSet | None = None
    """Rows that arrived in the batch for which they were wanted last, with the orders they were probed in."""

    def has(self, blocks: Sequence[OpenBlock], mask: np.ndarray) -> bool:
        """Whether the rows of these blocks are there, and not much else."""
        wanted = _rows_of(blocks, mask)
        return (
            all(block.meta.last_batch <= self.last for block in blocks)
            and bool((self.rows_of >= wanted).all())
            and self.rows_of.sum() <= SPARE * wanted.sum()
        )

    def add(self, blocks: Sequence[OpenBlock], mask: np.ndarray) -> None:
        """Put rows of newer batches together with the others."""
        latest = self._as_arrived(blocks, mask) or RowSet(_slices(blocks, mask))
        while self.sets and len(self.sets[-1]) < min(GROWTH * len(latest), ENOUGH - len(latest)):
            latest = RowSet(concat_rows([self.sets.pop().batch, latest.batch]))
        self.sets.append(latest)
        self.rows_of += _rows_of(blocks, mask)
        self.last = max(block.meta.last_batch for block in blocks)

    def _as_arrived(self, blocks: Sequence[OpenBlock], mask: np.ndarray) -> RowSet | None:
        """The rows of these blocks, if they are those that arrived last and are still at hand."""
        if self.arrived is None or any(block.meta.batch != self.asked for block in blocks):
            return None
        counts = partition_counts(self.arrived.int64s(HASH))
        return self.arrived if (counts == _rows_of(blocks, mask)).all() else None


_gathered: dict[Key, _Gathered] = {}


def gather(
    key: Key, blocks: Sequence[OpenBlock], mask: np.ndarray, batch: int, arrived: RowSet | None = None
) -> list[RowSet]:
    """Rows of a stream in some partitions, from all of the blocks.

    Parameters
    ----------
    key
        Who asks, its checkpoint first, for which state and partitions: what was put together before is used
        again. That other files have the rows now, because their owners have merged theirs, does not matter.
    mask
        The partitions.
    batch
        The batch for which they are wanted.
    arrived
        Rows of the same partitions that arrive in that batch, and will be in newer blocks afterwards.
    """
    known = _gathered.setdefault(key, _Gathered())
    if not known.has([block for block in blocks if block.meta.batch <= known.last], mask):
        known = _gathered[key] = _Gathered()
    if newer := [block for block in blocks if block.meta.batch > known.last]:
        known.add(newer, mask)
    known.asked, known.asked_s, known.arrived = batch, time.monotonic(), arrived
    return [rows for rows in known.sets if len(rows)]


def _slices(blocks: Sequence[OpenBlock], mask: np.ndarray) -> pa.RecordBatch:
    batches = [block.rows.batch for block in blocks]
    if sum(len(block.rows) for block in blocks) <= ENOUGH:  # many small ones: cut once
        return rows_in(concat_rows(batches), mask)
    return concat_rows([rows_in(batch, mask) for batch in batches])


def _rows_of(blocks: Sequence[OpenBlock], mask: np.ndarray) -> np.ndarray:
    return np.where(mask, np.sum([block.rows_of for block in blocks], axis=0, dtype=np.int64), 0)


def forget_gathered(storage: Storage, batch: int) -> None:
    """Let go of what a session did not ask for lately, and of what is left of sessions that have ended."""
    unused_since = time.monotonic() - UNUSED_S
    for key, known in list(_gathered.items()):
        if known.asked_s < unused_since or (key[0] == storage and abs(batch - known.asked) > 1):
            del _gathered[key]
