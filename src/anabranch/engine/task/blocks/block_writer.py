"""Writes the blocks of one slot in one batch."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import pyarrow as pa
import pyarrow.compute as pc

from anabranch.exchange.partition_counts import partition_counts
from anabranch.operators.rows.row_set import RowSet, int64s
from anabranch.plan.inputs import DEADLINE, HASH, MAX_TIME
from anabranch.plan.states.state_id import StateId
from anabranch.state.block import BlockMeta, map_block, write_block
from anabranch.state.paths import BLOCKS
from anabranch.state.stamp import Stamp
from anabranch.state.storage import Storage


class BlockWriter:
    """Names, describes and writes blocks.

    Parameters
    ----------
    stamp
        Who writes them, and in which step.
    unique
        See `state.block.unique_part`.
    """

    def __init__(self, storage: Storage, *, stamp: Stamp, slot: int, unique: str) -> None:
        self._storage = storage
        self._stamp = stamp
        self._slot = slot
        self._unique = unique
        self._number = 0

    def write(
        self,
        state: StateId,
        rows: pa.RecordBatch,
        time_column: str,
        batches: tuple[int, int] | None = None,
        folder: str = "",
    ) -> BlockMeta:
        """Write rows as a durable block.

        Parameters
        ----------
        batches
            First and last batch that the rows came from; this one if not given.
        folder
            Folder of the blocks, for sites that share nothing.
        """
        first, last = batches or (self._stamp.batch, self._stamp.batch)
        times = pc.min_max(rows.column(time_column))
        deadline = pc.max(rows.column(DEADLINE)).as_py() if time_column == MAX_TIME else None
        partitions = partition_counts(int64s(rows, HASH))
        self._number += 1
        return write_block(
            self._storage,
            rows,
            state=state,
            stamp=self._stamp,
            batch=first,
            last_batch=last,
            slot=self._slot,
            unique=f"{self._unique}-{self._number}",
            min_ts=times["min"].as_py(),
            max_ts=times["max"].as_py(),
            max_deadline=deadline,
            partitions=enumerate(partitions.tolist()),
            folder=folder,
        )

    def write_made(self, kept: Mapping[StateId, list[pa.RecordBatch]]) -> list[BlockMeta]:
        """Write rows that joins have made, one block for each state."""
        return [
            self.write(state, RowSet.merged(batches, MAX_TIME).batch, MAX_TIME)
            for state, batches in kept.items()
        ]

    def spill(self, state: StateId, rows: pa.RecordBatch) -> tuple[BlockMeta, pa.RecordBatch]:
        """Write rows of a join, and read them from their file from now on."""
        block = self.write(state, rows, MAX_TIME)
        return block, map_block(self._storage, block, checked=True)

    def discard(self, blocks: Iterable[BlockMeta]) -> None:
        """Remove blocks that nobody was told of."""
        for block in blocks:
            self._storage.delete(f"{BLOCKS}/{block.name}")
