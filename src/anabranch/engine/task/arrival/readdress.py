"""Rows of joins that were laid out otherwise until now: each slot takes those that are its own from here."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from anabranch.engine.task.blocks.block_writer import BlockWriter
from anabranch.exchange.address import PARTITIONS
from anabranch.operators.rows.row_set import RowSet, rows_in
from anabranch.plan.inputs import HASH
from anabranch.plan.stations.readdressing import Readdressing
from anabranch.state.block import BlockMeta, map_block
from anabranch.state.storage import Storage


def readdress(
    relaid: Sequence[Readdressing],
    blocks: Iterable[BlockMeta],
    *,
    storage: Storage,
    owned: npt.NDArray[np.bool_],
    files: BlockWriter,
) -> Iterator[BlockMeta]:
    """Write blocks of the rows that belong to some partitions under their new addresses.

    Block by block, so that no more than one is held. The new ones have the batches of the old.
    """
    for block in blocks:
        for change in (change for change in relaid if change.source == block.state):
            rows = _readdressed(change, _rows_of(storage, block))
            mine = rows_in(rows, owned)
            if mine.num_rows:
                in_order = RowSet.sorted(mine, change.time).batch
                yield files.write(change.target, in_order, change.time, (block.batch, block.last_batch))


def _rows_of(storage: Storage, block: BlockMeta) -> pa.RecordBatch:
    """What counts of a block: some of its partitions may have been discarded."""
    rows = map_block(storage, block)
    if sum(n for _, n in block.partitions) == block.rows:
        return rows
    left = np.zeros(PARTITIONS, dtype=np.bool_)
    left[[p for p, _ in block.partitions]] = True
    return rows_in(rows, left)


def _readdressed(change: Readdressing, rows: pa.RecordBatch) -> pa.RecordBatch:
    for name in change.required:
        if rows.column(name).null_count:  # NULL equals nothing
            rows = rows.filter(rows.column(name).is_valid())
    address = (
        pa.array(np.full(rows.num_rows, change.pin, dtype=np.int64))
        if change.address is None
        else rows.column(change.address)
    )
    columns = {HASH: address}
    columns |= {after: rows.column(before) for before, after in change.columns}
    return pa.RecordBatch.from_arrays(list(columns.values()), list(columns))
