"""Where a session stands between two steps: what the next one starts from."""

from __future__ import annotations

from dataclasses import dataclass

from anabranch.adapt.boundary.boundary_state import BoundaryState
from anabranch.adapt.boundary.decisions import Decisions
from anabranch.adapt.tracks.tracks import Tracks
from anabranch.engine.live.prepared import Prepared
from anabranch.queries.catalog import Catalog
from anabranch.state import BlockMeta, Manifest
from anabranch.state.block_lists import BlockList


@dataclass(frozen=True, slots=True)
class Standing:
    """What the steps before have left, and what was decided for the next one."""

    manifest: Manifest | None
    """Of the last step; None before the first."""
    parent: str
    """Its digest."""
    prepared: Prepared
    state: BoundaryState
    decisions: Decisions
    began_s: float
    """When the last step began, or the session."""

    @property
    def catalog(self) -> Catalog:
        return self.prepared.catalog

    @property
    def blocks(self) -> tuple[BlockMeta, ...]:
        return self.manifest.blocks if self.manifest else ()

    @property
    def lists(self) -> tuple[BlockList, ...]:
        """Lists of blocks that workers can read."""
        return self.manifest.lists if self.manifest else ()

    def untold(self, tracks: Tracks) -> Tracks:
        """Tracks without the plans that the constants have."""
        return tracks.beside(self.prepared.compiled.defaults)
