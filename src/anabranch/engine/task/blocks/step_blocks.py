"""The blocks of a step as they travel to the slots: by lists that workers know, and what is not in them."""

from __future__ import annotations

from collections.abc import Sequence

from anabranch.state.block import BlockMeta
from anabranch.state.block_lists import BlockList, Listed, listed, read_list
from anabranch.state.side_file import SideFile
from anabranch.state.storage import Storage

_State = tuple[
    Storage,
    tuple[tuple[SideFile, str], ...],
    tuple[BlockMeta, ...],
    tuple[tuple[int, ...], ...],
]


class StepBlocks:
    """Blocks that some site may read, and groups of them to merge in passing.

    Parameters
    ----------
    lists
        Lists of the last manifest.
    merges
        Names of blocks.
    """

    def __init__(
        self,
        storage: Storage,
        blocks: Sequence[BlockMeta],
        lists: Sequence[BlockList],
        merges: Sequence[Sequence[str]],
    ) -> None:
        self._storage = storage
        self._listed = listed(blocks, lists)
        self.blocks = self._listed.blocks()
        self.merges = tuple(tuple(group) for group in merges)

    def __getstate__(self) -> _State:
        at = {block.name: i for i, block in enumerate(self.blocks)} if self.merges else {}
        merges = tuple(tuple(at[name] for name in group) for group in self.merges)
        files = tuple((SideFile(known.file.name, known.file.digest), b) for known, b in self._listed.lists)
        return self._storage, files, self._listed.loose, merges

    def __setstate__(self, state: _State) -> None:
        self._storage, files, loose, merges = state
        self._listed = Listed(tuple((read_list(self._storage, file), bits) for file, bits in files), loose)
        self.blocks = self._listed.blocks()
        self.merges = tuple(tuple(self.blocks[i].name for i in group) for group in merges)
