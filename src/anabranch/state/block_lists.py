"""Lists of blocks: a step that leaves very many writes them into a side file, which later manifests name.

What changes afterwards is told by a bit per block: whether it is still there as it was written. So a manifest
with thousands of states is as long as the number of its lists, and so is what the slots are told.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, fields
from functools import lru_cache
from typing import Any

from anabranch.plan.states.state_id import StateId
from anabranch.state.block import BlockMeta
from anabranch.state.paths import LISTS
from anabranch.state.side_file import KEPT, SideFile, read_side_file
from anabranch.state.stamp import Stamp
from anabranch.state.storage import Storage

MOST_LOOSE = 256
"""Blocks that a manifest names itself."""
WORTH_KEEPING = 0.25
"""Share of its blocks that a list must still have."""

MOST_ROWS = 4096
"""Blocks whose JSON a process remembers."""
_rows: dict[str, tuple[BlockMeta, list[Any]]] = {}
_FIELDS = tuple(f.name for f in fields(BlockMeta) if f.name != "partitions")


@dataclass(frozen=True, slots=True)
class BlockList:
    """Blocks that were written together."""

    file: SideFile
    blocks: tuple[BlockMeta, ...] = field(compare=False, repr=False)

    @classmethod
    def of(cls, blocks: Sequence[BlockMeta], stamp: Stamp) -> BlockList:
        return cls(SideFile.of(LISTS, stamp, [block_to_row(b) for b in blocks]), tuple(blocks))


@dataclass(frozen=True, slots=True)
class Listed:
    """Blocks in the order of lists, then the others.

    Attributes
    ----------
    lists
        Lists with, for each, the bits of the blocks that are there as listed: a hexadecimal number.
    loose
        Blocks in no list, or not as they are there.
    """

    lists: tuple[tuple[BlockList, str], ...]
    loose: tuple[BlockMeta, ...]

    def blocks(self) -> tuple[BlockMeta, ...]:
        """All blocks."""
        found: list[BlockMeta] = []
        for known, bits in self.lists:
            alive = _flags(bits, len(known.blocks))
            found += [block for block, here in zip(known.blocks, alive, strict=True) if here]
        return (*found, *self.loose)


def listed(blocks: Sequence[BlockMeta], lists: Sequence[BlockList]) -> Listed:
    """Tell blocks by lists, as far as these have them."""
    if not lists:
        return Listed((), tuple(blocks))
    current = {block.name: block for block in blocks}
    found = []
    for known in lists:
        alive = [_is_same(current.get(block.name), block) for block in known.blocks]
        if sum(alive) >= max(1.0, WORTH_KEEPING * len(alive)):
            found.append((known, _bits(alive)))
            for block, here in zip(known.blocks, alive, strict=True):
                if here:
                    del current[block.name]
    return Listed(tuple(found), tuple(current.values()))


def with_new_list(known: Listed, stamp: Stamp) -> Listed:
    """The same blocks with a list of those in none, if they are many."""
    if len(known.loose) <= MOST_LOOSE:
        return known
    fresh = BlockList.of(known.loose, stamp)
    return Listed((*known.lists, (fresh, _bits([True] * len(fresh.blocks)))), ())


@lru_cache(maxsize=KEPT)
def read_list(storage: Storage, file: SideFile) -> BlockList:
    """Return a list after checking it."""
    return BlockList(file, tuple(block_from_row(row) for row in read_side_file(storage, file)))


def block_to_row(block: BlockMeta) -> list[Any]:
    """A block as JSON. Most blocks of a manifest are those of the one before: what was made is kept."""
    known = _rows.get(block.name)
    if known is not None and known[0] is block:
        return known[1]
    row: list[Any] = [getattr(block, name) for name in _FIELDS]
    row.append(_encode_partitions(block.partitions))
    if len(_rows) >= MOST_ROWS:
        _rows.clear()
    _rows[block.name] = block, row
    return row


def block_from_row(row: Sequence[Any]) -> BlockMeta:
    """The block that `block_to_row` has made JSON of."""
    *known, runs = row
    named = dict(zip(_FIELDS, known, strict=True))
    named["state"] = StateId(named["state"])
    return BlockMeta(**named, partitions=_decode_partitions(runs))


def _encode_partitions(partitions: Sequence[tuple[int, int]]) -> list[list[int]]:
    """Turn (partition, rows) pairs into runs [first partition, rows, rows, …].

    >>> _encode_partitions(((4, 100), (5, 90), (9, 80)))
    [[4, 100, 90], [9, 80]]
    """
    runs: list[list[int]] = []
    expected = None
    for partition, rows in partitions:
        if partition != expected:
            run = [partition]
            runs.append(run)
        run.append(rows)
        expected = partition + 1
    return runs


def _decode_partitions(runs: list[list[int]]) -> tuple[tuple[int, int], ...]:
    return tuple(pair for first, *rows in runs for pair in enumerate(rows, first))


def _is_same(block: BlockMeta | None, listed: BlockMeta) -> bool:
    return block is listed or block == listed


def _bits(flags: Sequence[bool]) -> str:
    return f"{int(''.join('1' if flag else '0' for flag in flags), 2):x}"


def _flags(bits: str, count: int) -> list[bool]:
    return [digit == "1" for digit in f"{int(bits, 16):0{count}b}"]
