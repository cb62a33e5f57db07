"""Tracks that have outlived the one before them become part of those that were always there.

As long as an older track works on the same partitions, a newer one has states of its own. Afterwards no row
from before it can match, so that it could as well have begun with the query: its blocks get the names that
the states of such a track have, in the manifest only, and a site joins rows of all its partitions at once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from anabranch.adapt.tracks.tracks import Track, Tracks
from anabranch.engine.task.sites.site_work import has_rows_of
from anabranch.exchange.partition_set import EVERY, NOTHING, PartitionSet
from anabranch.plan.local_plan import LocalPlan
from anabranch.plan.states.state_id import StateId
from anabranch.state.block import BlockMeta


def settled(
    tracks: Tracks, blocks: Sequence[BlockMeta], plan_of: Callable[[Track], LocalPlan]
) -> tuple[Tracks, dict[str, StateId]]:
    """The tracks after all of a group that began together have outlived what was before.

    Beside them, the states of those by name, with the names that their blocks get.
    """
    names: dict[str, StateId] = {}
    for query, groups in tracks.began.items():
        for since, partitions in groups.items():
            if since == 0 or _is_busy(tracks, query, since, partitions):
                continue
            renamed: dict[str, StateId] = {}
            for plan in set(tracks.plans[query]):
                track = Track(query, plan, 0, partitions)
                mine, first = (plan_of(replace(track, since=s)).nodes() for s in (since, 0))
                renamed |= {a.state: b.state for a, b in zip(mine, first, strict=True) if a.state != b.state}
            if any(b.state in renamed.values() and has_rows_of(b, partitions) for b in blocks):
                continue  # what the older track has left is discarded with the next batch
            names |= renamed
            tracks = _joined(tracks, query, since)
    return tracks, names


def _is_busy(tracks: Tracks, query: str, since: int, partitions: PartitionSet) -> bool:
    """Whether something is still to be done: older tracks, some that end themselves, states to compute."""
    ending = [t for t in tracks.ending if t.query == query]
    return (
        any(t.since == since or t.partitions & partitions for t in ending)
        or any((r.query, r.since) == (query, since) for r in tracks.rebuilds)
        or any(t.partitions & partitions for t in tracks.transfers)
    )


def _joined(tracks: Tracks, query: str, since: int) -> Tracks:
    groups = dict(tracks.began[query])
    groups[0] = groups.get(0, NOTHING) | groups.pop(since)
    began = {**tracks.began, query: groups}
    if groups == {0: EVERY}:
        del began[query]
    return replace(tracks, began=began)
