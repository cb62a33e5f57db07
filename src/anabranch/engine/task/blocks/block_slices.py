"""Slices of blocks: rows of some partitions, without touching those of others.

Most blocks ascend by hash as a signed number, and partitions are the top bits of the hash without its sign::

    partitions   128 129 … 255   0   1 … 127
                 ├──┤            ├──────┤          a slice per run of wanted neighbours
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa

from anabranch.engine.task.blocks.open_blocks import OpenBlock
from anabranch.exchange.address import PARTITIONS
from anabranch.exchange.partition_set import PartitionSet
from anabranch.operators.rows.column_codes import Flags
from anabranch.operators.rows.row_set import RowSet

_ORDER = np.roll(np.arange(PARTITIONS), PARTITIONS // 2)
"""Partitions as they lie in blocks."""


def slice_block(block: OpenBlock, wanted: Flags) -> OpenBlock | None:
    """The rows of the wanted partitions; None when there are none."""
    rows_of = np.where(wanted, block.rows_of, 0)
    if not rows_of.any():
        return None
    if (rows_of == block.rows_of).all():
        return block
    if not block.rows.in_order:
        return OpenBlock(block.meta, block.rows.within(wanted), PartitionSet.where(rows_of > 0), rows_of)
    present = _ORDER[block.rows_of[_ORDER] > 0]
    ends = np.cumsum(block.rows_of[present])
    starts = ends - block.rows_of[present]
    edges = np.diff(np.concatenate([[0], wanted[present].astype(np.int8), [0]]))
    first, last = starts[np.flatnonzero(edges > 0)], ends[np.flatnonzero(edges < 0) - 1]
    batch = block.rows.batch
    pieces = [batch.slice(start, end - start) for start, end in zip(first, last, strict=True)]
    rows = pieces[0] if len(pieces) == 1 else pa.concat_batches(pieces)
    return OpenBlock(block.meta, RowSet(rows), PartitionSet.where(rows_of > 0), rows_of)


def ranges_within(blocks: Sequence[OpenBlock], wanted: Flags, most_bytes: int | None) -> Iterator[Flags]:
    """The wanted partitions in runs of neighbours whose rows in all blocks are not more than some bytes.

    One that is larger is a run by itself.
    """
    if most_bytes is None:
        yield wanted
        return
    size = np.zeros(PARTITIONS)
    for block in blocks:
        size += block.rows_of * (block.meta.bytes / max(block.meta.rows, 1))
    run, total = np.zeros(PARTITIONS, dtype=bool), 0.0
    for partition in _ORDER[(wanted & (size > 0))[_ORDER]]:
        if run.any() and total + size[partition] > most_bytes:
            yield run
            run, total = np.zeros(PARTITIONS, dtype=bool), 0.0
        run[partition] = True
        total += size[partition]
    if run.any():
        yield run
