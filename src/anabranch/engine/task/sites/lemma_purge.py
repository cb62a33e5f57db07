"""The paper's purge rule for parallel tracks, beside our exact one; experiments choose it.

An intermediate row carries the largest time of its members, and leaves a window after that
(CAPE, lemma 2.2 and figure 8). So old rows live on in rows they have joined:

    old row ├──── W ────┤            ours: nothing can reach it any more, the track ends
                    new row joins it ├──── W ────┤   the paper's: now the joined row leaves
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pyarrow.compute as pc

from anabranch.adapt.tracks.tracks import Track
from anabranch.engine.step.manifests.retention import KeptStates, horizons_of
from anabranch.engine.task.sites.site_work import is_over
from anabranch.operators.rows.row_set import rows_in
from anabranch.plan.inputs import MAX_TIME
from anabranch.plan.local_plan import LocalPlan
from anabranch.plan.nodes import JoinNode, LeafNode
from anabranch.state.block import BlockMeta, map_block
from anabranch.state.storage import Storage


class LemmaPurge:
    """Ends a track when also every intermediate row with an old member has left by its combined time.

    Only when tracks end is the paper's; rows that no result can contain are dropped as ever.

    Parameters
    ----------
    storage
        The checkpoint.
    """

    def __init__(self, storage: Storage) -> None:
        self._storage = storage
        self._newest: dict[Track, dict[str, int]] = {}
        """Per track and intermediate state, the newest combined time of a row with an old member."""
        self._seen: set[tuple[Track, str]] = set()

    def __call__(
        self, plan: LocalPlan, track: Track, blocks: Sequence[BlockMeta], watermarks: Mapping[str, int | None]
    ) -> bool:
        self._look_at(plan, track, blocks)
        if not is_over(plan, track, blocks, watermarks):
            return False
        window_us = max(node.window_us for node in plan.nodes() if isinstance(node, LeafNode))
        horizons = horizons_of(KeptStates.of([plan]), watermarks, {})
        newest = self._newest.get(track, {})
        return all(time + window_us < horizons[state] for state, time in newest.items())

    def _look_at(self, plan: LocalPlan, track: Track, blocks: Sequence[BlockMeta]) -> None:
        """Take note of rows with an old member that the track has made since the last look."""
        states = {node.state for node in plan.nodes() if isinstance(node, JoinNode)}
        newest = self._newest.setdefault(track, {})
        for block in blocks:
            if block.state not in states or (track, block.name) in self._seen:
                continue
            self._seen.add((track, block.name))
            rows = rows_in(map_block(self._storage, block), track.partitions.flags())
            if rows.num_rows:  # all have an old member
                time = pc.max(rows.column(MAX_TIME)).as_py()
                newest[block.state] = max(time, newest.get(block.state, time))
