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

from anabranch.operators.rows import RowSet, concat_rows, rows_in
from anabranch.plan.layout import TIME
from anabranch.runtime.open_blocks import OpenBlock

GROWTH = 2
"""A set is put together with the next unless it is so many times as big: sizes grow like powers of two."""


@dataclass(slots=True)
class _Set:
    blocks: tuple[OpenBlock, ...]
    rows: RowSet


@dataclass(slots=True)
class _Gathered:
    batch: int
    sets: list[_Set] = field(default_factory=list)


_gathered: dict[Hashable, _Gathered] = {}


def gather(key: Hashable, blocks: Sequence[OpenBlock], mask: np.ndarray, batch: int) -> list[RowSet]:
    """Rows of a stream in some partitions, from all of the blocks.

    Parameters
    ----------
    key
        Who asks, for which state and partitions: what was put together before is used again, as long as
        the blocks it came from are still there.
    mask
        The partitions.
    batch
        The batch for which they are wanted.
    """
    known = _gathered.setdefault(key, _Gathered(batch))
    known.batch = batch
    present = {id(block) for block in blocks}
    known.sets = [s for s in known.sets if all(id(block) in present for block in s.blocks)]
    held = {id(block) for s in known.sets for block in s.blocks}
    loose = [block for block in blocks if id(block) not in held]
    if loose:
        pieces = [rows_in(block.rows.batch, mask) for block in loose]
        while known.sets and len(known.sets[-1].rows) < GROWTH * sum(p.num_rows for p in pieces):
            smaller = known.sets.pop()
            pieces.append(smaller.rows.batch)
            loose += smaller.blocks
        known.sets.append(_Set(tuple(loose), RowSet.sorted(concat_rows(pieces), TIME)))
    return [s.rows for s in known.sets]


def forget_gathered(batch: int) -> None:
    """Let go of what was not asked for lately."""
    for key in [k for k, known in _gathered.items() if abs(batch - known.batch) > 1]:
        del _gathered[key]
