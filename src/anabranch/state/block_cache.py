"""Blocks this process has verified and mapped, so that each is checked once."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from anabranch.state.block import BlockMeta, map_block

_DEFAULT_LIMIT = 1024  # maps per directory; Linux allows a process 65,530
_CHECKS = 16 * _DEFAULT_LIMIT


@dataclass(frozen=True, slots=True)
class _Opened:
    checksum: str
    bytes: int
    rows: int
    block: pa.RecordBatch

    def matches(self, meta: BlockMeta) -> bool:
        return (self.checksum, self.bytes, self.rows) == (meta.checksum, meta.bytes, meta.rows)


class BlockCache:
    """Verified, memory-mapped blocks of one directory, the least recently used leaving first.

    Dropping a block here unmaps it once nobody holds its arrays.
    """

    def __init__(self, directory: Path, *, limit: int = _DEFAULT_LIMIT) -> None:
        self.directory = directory
        self._limit = limit
        self._opened: OrderedDict[str, _Opened] = OrderedDict()
        self._checked: OrderedDict[tuple[str, str], None] = OrderedDict()
        """Blocks that were verified, by name and checksum: mapped again, they need not be."""
        self._lock = threading.Lock()

    def open(self, meta: BlockMeta, *, sparing: bool = False) -> pa.RecordBatch:
        """Return the block, verifying it unless this cache has done so.

        Parameters
        ----------
        sparing
            Verify it without touching its map, of which not all may be read.
        """
        key = meta.name, meta.checksum
        with self._lock:
            known = self._opened.get(meta.name)
            if known is not None and known.matches(meta):
                self._opened.move_to_end(meta.name)
                return known.block
        # Outside the lock: it reads the whole file.
        block = map_block(self.directory, meta, checked=key in self._checked, sparing=sparing)
        with self._lock:
            self._checked[key] = None
            while len(self._checked) > _CHECKS:
                self._checked.popitem(last=False)
            self._opened[meta.name] = _Opened(meta.checksum, meta.bytes, meta.rows, block)
            self._opened.move_to_end(meta.name)
            while len(self._opened) > self._limit:
                self._opened.popitem(last=False)
        return block

    def retain(self, names: Collection[str]) -> None:
        """Forget every block that is not in `names`."""
        with self._lock:
            for name in self._opened.keys() - set(names):
                del self._opened[name]
            for key in [key for key in self._checked if key[0] not in self._opened]:
                del self._checked[key]

    def unmap(self) -> None:
        """Keep no block mapped, but remember which were verified."""
        with self._lock:
            self._opened.clear()

    def __len__(self) -> int:
        return len(self._opened)


_caches: dict[Path, BlockCache] = {}


def block_cache(directory: Path) -> BlockCache:
    """Return this process's cache for `directory`."""
    cache = _caches.get(directory)
    if cache is None:
        cache = _caches.setdefault(directory, BlockCache(directory))
    return cache


def open_block(directory: Path, meta: BlockMeta, *, sparing: bool = False) -> pa.RecordBatch:
    """Return a block without copying it, verified once per process.

    Raises
    ------
    CorruptionError
        The file is missing or is not what was written.
    """
    return block_cache(directory).open(meta, sparing=sparing)
