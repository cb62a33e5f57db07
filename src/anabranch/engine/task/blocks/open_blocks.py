"""The blocks that a worker process has open, with the indexes it has built on them."""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import pyarrow as pa

from anabranch.errors import StateError
from anabranch.exchange.address import PARTITIONS
from anabranch.exchange.partition_set import PartitionSet
from anabranch.operators.rows.row_set import RowSet, rows_in
from anabranch.plan.states.state_id import StateId
from anabranch.state.block import BlockMeta, map_block
from anabranch.state.paths import BLOCKS
from anabranch.state.storage import Storage

UNUSED_S = 600.0
"""A session that has not asked for its blocks for so long has ended; or else it opens them again."""


@dataclass(frozen=True, slots=True)
class OpenBlock:
    meta: BlockMeta
    rows: RowSet
    partitions: PartitionSet
    rows_of: np.ndarray
    """Rows by partition."""


@dataclass(slots=True)
class _Opened:
    """What this process has open of one checkpoint.

    Dropping a block here unmaps it once nobody holds its arrays; a file that is mapped takes up the disk
    even after it was deleted.
    """

    blocks: dict[str, OpenBlock] = field(default_factory=dict)
    verified: dict[str, str] = field(default_factory=dict)
    """Checksums of blocks that were verified: mapped again, they need not be."""
    used_s: float = 0.0
    """When it was last asked for."""

    def retain(self, names: Collection[str]) -> None:
        """Forget what is not in `names`."""
        for name in self.verified.keys() - names:
            del self.verified[name]
            self.blocks.pop(name, None)


_opened: dict[Storage, _Opened] = {}


def open_blocks(
    storage: Storage,
    blocks: Sequence[BlockMeta],
    partitions: np.ndarray,
    *,
    sparing: bool = False,
    beside: frozenset[str] = frozenset(),
) -> dict[StateId, list[OpenBlock]]:
    """Blocks by state that have rows of some of the partitions; others that were open are forgotten.

    Parameters
    ----------
    sparing
        Open them without bringing all of them into memory.
    beside
        Names of others that stay open if they are.

    Raises
    ------
    CorruptionError
        A file is missing or is not what was written.
    """
    mine = PartitionSet.where(partitions)
    known = _opened_of(storage)
    known.retain({b.name for b in blocks} | beside)
    storage.need_local(f"{BLOCKS}/{b.name}" for b in blocks)
    by_state: dict[StateId, list[OpenBlock]] = {}
    for meta in blocks:
        block = known.blocks.get(meta.name)
        if block is None or block.meta.partitions != meta.partitions:
            found = PartitionSet.of(p for p, _ in meta.partitions)
            if not found & mine:
                known.blocks.pop(meta.name, None)  # what it had of ours was discarded: nothing to compact
                continue
            checked = known.verified.get(meta.name) == meta.checksum
            rows = map_block(storage, meta, checked=checked, sparing=sparing)
            known.verified[meta.name] = meta.checksum
            block = known.blocks[meta.name] = _open(meta, rows, found)
        if block.meta.state != meta.state:
            block = known.blocks[meta.name] = replace(block, meta=meta)
        if block.partitions & mine:
            by_state.setdefault(meta.state, []).append(block)
    return by_state


def rows_kept(blocks: Mapping[StateId, Sequence[OpenBlock]]) -> np.ndarray:
    """Rows of all blocks, by partition."""
    return sum((b.rows_of for its in blocks.values() for b in its), np.zeros(PARTITIONS))


def opened(storage: Storage) -> Mapping[str, OpenBlock]:
    """Blocks of a checkpoint that are open, by name."""
    return _opened_of(storage).blocks


def close_blocks(storage: Storage) -> None:
    """Keep nothing of a checkpoint open, so that nothing stays in memory."""
    _opened_of(storage).blocks.clear()


def _opened_of(storage: Storage) -> _Opened:
    now_s = time.monotonic()
    if storage not in _opened:
        for other, known in list(_opened.items()):
            if now_s - known.used_s > UNUSED_S or _is_gone(other):
                del _opened[other]
        _opened[storage] = _Opened()
    _opened[storage].used_s = now_s
    return _opened[storage]


def _is_gone(storage: Storage) -> bool:
    """Whether a checkpoint was removed: a live session has blocks where it has some open."""
    try:
        return not storage.list(BLOCKS)
    except (OSError, StateError):
        return True


def _open(meta: BlockMeta, rows: pa.RecordBatch, partitions: PartitionSet) -> OpenBlock:
    rows_of = np.zeros(PARTITIONS, dtype=np.int64)
    rows_of[[p for p, _ in meta.partitions]] = [n for _, n in meta.partitions]
    if rows_of.sum() < meta.rows:  # some of its partitions were discarded
        rows = rows_in(rows, rows_of > 0)
    return OpenBlock(meta, RowSet(rows, is_shared=True), partitions, rows_of)
