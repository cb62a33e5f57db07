"""New rows that a track which ends at another site reads from many small files, gathered into few sets.

The sender of a parallel track is sent the new rows of the partitions that have left it, and would insert
them into its states (papers/dcape.txt, section 3.2). Here their owners keep them, each in files of its own;
probing those one by one would cost the sender several times what its own would. So a worker process puts
them together, as compaction would, and keeps them for the next batch. Nothing of it is durable: it is
computed from the open blocks, and can be forgotten at any time.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field

import numpy as np

from anabranch.operators.rows import RowSet, rows_in
from anabranch.plan.layout import TIME
from anabranch.runtime.open_blocks import OpenBlock

GROWTH = 2
"""A set is put together with the next unless it is so many times as big: sizes grow like powers of two."""


@dataclass(slots=True)
class _Set:
    """The rows of some batches, whatever files they are in by now."""

    first: int
    last: int
    rows: RowSet
    rows_of: np.ndarray
    """Rows by partition."""

    def has(self, block: OpenBlock) -> bool:
        return self.first <= block.meta.batch and block.meta.last_batch <= self.last

    def overlaps(self, block: OpenBlock) -> bool:
        return block.meta.batch <= self.last and self.first <= block.meta.last_batch


@dataclass(slots=True)
class _Gathered:
    batch: int
    sets: list[_Set] = field(default_factory=list)
    """From the oldest batches to the newest."""


_gathered: dict[Hashable, _Gathered] = {}


def gather(key: Hashable, blocks: Sequence[OpenBlock], mask: np.ndarray, batch: int) -> list[RowSet]:
    """Rows of a stream in some partitions, from all of the blocks.

    Parameters
    ----------
    key
        Who asks, for which state and partitions: what was put together before is used again. That other
        files have the rows now, because their owners have merged theirs, does not matter.
    mask
        The partitions.
    batch
        The batch for which they are wanted.
    """
    known = _gathered.setdefault(key, _Gathered(batch))
    known.batch = batch
    if any(s.overlaps(block) and not s.has(block) for s in known.sets for block in blocks):
        known.sets = []
    kept = []
    for s in known.sets:
        inside = [block for block in blocks if s.has(block)]
        if inside and (_rows_of(inside, mask) == s.rows_of).all():
            kept.append(s)
        elif inside:  # some have expired
            kept.append(_put_together(inside, mask))
    known.sets = kept
    loose = [block for block in blocks if not any(s.has(block) for s in known.sets)]
    if loose:
        latest = _put_together(loose, mask)
        while known.sets and len(known.sets[-1].rows) < GROWTH * len(latest.rows):
            older = known.sets.pop()
            both = RowSet.merged([older.rows.batch, latest.rows.batch], TIME)
            latest = _Set(older.first, latest.last, both, older.rows_of + latest.rows_of)
        known.sets.append(latest)
    return [s.rows for s in known.sets if len(s.rows)]


def _put_together(blocks: Sequence[OpenBlock], mask: np.ndarray) -> _Set:
    pieces = [rows_in(block.rows.batch, mask) for block in blocks]
    first, last = min(b.meta.batch for b in blocks), max(b.meta.last_batch for b in blocks)
    return _Set(first, last, RowSet.merged(pieces, TIME), _rows_of(blocks, mask))


def _rows_of(blocks: Sequence[OpenBlock], mask: np.ndarray) -> np.ndarray:
    return np.where(mask, np.sum([block.rows_of for block in blocks], axis=0), 0)


def forget_gathered(batch: int) -> None:
    """Let go of what was not asked for lately."""
    for key in [k for k, known in _gathered.items() if abs(batch - known.batch) > 1]:
        del _gathered[key]
