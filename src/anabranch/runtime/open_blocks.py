"""The blocks that a worker process has open, with the indexes it has built on them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from anabranch.adapt.tracks import Partitions, bits
from anabranch.exchange.partition_map import PARTITIONS
from anabranch.operators.rows import RowSet, rows_in
from anabranch.state.block import BlockMeta
from anabranch.state.block_cache import block_cache, open_block


@dataclass(frozen=True, slots=True)
class OpenBlock:
    meta: BlockMeta
    rows: RowSet
    partitions: Partitions
    rows_of: np.ndarray
    """Rows by partition."""


_opened: dict[str, OpenBlock] = {}


def open_blocks(
    directory: Path, blocks: Sequence[BlockMeta], partitions: np.ndarray, *, sparing: bool = False
) -> dict[str, list[OpenBlock]]:
    """Blocks by state that have rows of some of the partitions; others that were open are forgotten.

    Parameters
    ----------
    sparing
        Open them without bringing all of them into memory.
    """
    for name in _opened.keys() - {b.name for b in blocks}:
        del _opened[name]
    mine = bits(np.flatnonzero(partitions))
    by_state: dict[str, list[OpenBlock]] = {}
    for meta in blocks:
        block = _opened.get(meta.name)
        if block is None or block.meta.partitions != meta.partitions:
            found = bits(p for p, _ in meta.partitions)
            if not found & mine:
                _opened.pop(meta.name, None)  # what it had of ours was discarded: nothing to compact
                continue
            block = _opened[meta.name] = _open(directory, meta, found, sparing=sparing)
        if block.meta.state != meta.state:
            block = _opened[meta.name] = replace(block, meta=meta)
        if block.partitions & mine:
            by_state.setdefault(meta.state, []).append(block)
    return by_state


def opened(name: str) -> OpenBlock | None:
    """A block that is open."""
    return _opened.get(name)


def close_blocks(directory: Path) -> None:
    """Keep nothing open, so that nothing stays in memory."""
    _opened.clear()
    block_cache(directory).unmap()


def mask_of(partitions: Partitions) -> np.ndarray:
    """A set of partitions as an array of truth values."""
    packed = np.frombuffer(partitions.to_bytes(PARTITIONS // 8, "little"), dtype=np.uint8)
    return np.unpackbits(packed, bitorder="little").astype(np.bool_)


def _open(directory: Path, meta: BlockMeta, partitions: Partitions, *, sparing: bool) -> OpenBlock:
    rows_of = np.zeros(PARTITIONS, dtype=np.int64)
    rows_of[[p for p, _ in meta.partitions]] = [n for _, n in meta.partitions]
    rows = open_block(directory, meta, sparing=sparing)
    if rows_of.sum() < meta.rows:  # some of its partitions were discarded
        rows = rows_in(rows, rows_of > 0)
    return OpenBlock(meta, RowSet(rows), partitions, rows_of)
