"""The work of a site in one batch: its tracks, with plans ready to run."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain

from anabranch.adapt.tracks.tracks import Track, Tracks
from anabranch.engine.step.manifests.retention import KeptStates, horizons_of
from anabranch.exchange.partition_map import PartitionMap
from anabranch.exchange.partition_set import EVERY, NOTHING, PartitionSet, union
from anabranch.plan.inputs import Layout
from anabranch.plan.local_plan import LocalPlan, compile_join, compile_plan
from anabranch.plan.nodes import JoinNode, LeafNode
from anabranch.plan.states.state_id import StateId
from anabranch.plan.tree import parse_plan, state_of_aliases
from anabranch.state.block import BlockMeta
from anabranch.state.expiry import may_drop


@dataclass(frozen=True, slots=True)
class TrackWork:
    """One track at a site."""

    plan: LocalPlan
    partitions: PartitionSet
    after: int = 0
    """While an older track works on the same partitions: the batch from which on rows count."""
    until: int | None = None
    rebuilds: tuple[tuple[PartitionSet, frozenset[StateId]], ...] = ()
    """States to compute first, for some of the partitions."""

    def within(self, partitions: PartitionSet) -> TrackWork:
        """The same for some of the partitions only."""
        rebuilds = ((mask & partitions, states) for mask, states in self.rebuilds)
        return replace(
            self,
            partitions=self.partitions & partitions,
            rebuilds=tuple((mask, states) for mask, states in rebuilds if mask),
        )


Work = dict[int, tuple[TrackWork, ...]]
"""By site."""
MOST_PLANNED = 64
"""Answers of `TrackCompiler.work` that are remembered."""
Key = tuple[str, str, int, int | None]
"""Query, plan, beginning and end of a track."""


class TrackCompiler:
    """Makes work of tracks; keeps the plans it has made ready, as long as there is a track for them."""

    def __init__(self, layout: Layout, plans: Sequence[LocalPlan]) -> None:
        self._layout = layout
        self._routed = {routed.query.name: routed for routed in layout.queries}
        self._plain = [plan for plan in plans if not plan.has_tracks]
        self._defaults: dict[Key, LocalPlan] = {
            (p.query.name, str(p.plan), 0, None): p for p in plans if p.has_tracks
        }
        self._compiled: dict[Key, LocalPlan] = {}
        self._joins: dict[tuple[str, tuple[str, ...], str], JoinNode] = {}
        self._planned: dict[frozenset[str], tuple[tuple[Tracks, PartitionMap], Work]] = {}
        """By queries that do not work what `work` was asked last, and its answer: most batches ask the same
        again."""

    def plan_of(self, track: Track) -> LocalPlan:
        key = _key(track)
        if (default := self._defaults.get(key)) is not None:
            return default
        if key not in self._compiled:
            tree = parse_plan(track.plan)
            routed = self._routed[track.query]
            self._compiled[key] = compile_plan(
                self._layout, routed, tree, since=track.since, until=track.until
            )
        return self._compiled[key]

    def join_of(self, query: str, inside: tuple[str, ...], probed: str) -> JoinNode:
        """A step of a path: rows of some references meet another one."""
        key = query, inside, probed
        if key not in self._joins:
            self._joins[key] = compile_join(self._layout, self._routed[query], inside, probed)
        return self._joins[key]

    def may_follow(self, track: Track, plan: str, owned: PartitionSet, blocks: Sequence[BlockMeta]) -> bool:
        """Whether a track that ends can change to its site's new plan, and should.

        States of both plans must have the same rows in both. And what the policy has weighed is what the site
        computes for the partitions it owns: it is not to compute more for those that have left.
        """
        apart = [
            {n.aliases: n.fresh is not None for n in self.plan_of(t).nodes() if isinstance(n, JoinNode)}
            for t in (track, replace(track, plan=plan))
        ]
        if any(apart[0][aliases] != apart[1][aliases] for aliases in apart[0].keys() & apart[1].keys()):
            return False
        leaves = {n.state for n in self.plan_of(track).nodes() if isinstance(n, LeafNode)}
        kept = [block for block in blocks if block.state in leaves]
        old = [block for block in kept if track.until is None or block.batch < track.until]
        return _rows_of(old, track.partitions) <= _rows_of(kept, owned)

    def work(self, tracks: Tracks, partition_map: PartitionMap, failed: frozenset[str]) -> Work:
        """By site, what it has to do in the next batch."""
        asked, before = (tracks, partition_map), self._planned.get(failed)
        if before is not None and asked == before[0]:
            return before[1]
        work: Work = {}
        known: set[Key] = set()
        for site, owned in enumerate(partition_map.partitions_by_site()):
            mine = [TrackWork(plan, owned) for plan in self._plain if plan.query.name not in failed]
            running = [t for q in tracks.plans for t in tracks.newest(q, site, owned)]
            running += [t for t in tracks.ending if t.site == site]
            known.update(map(_key, running))
            mine += [
                self._of_track(tracks, part, shared)
                for track in running
                if track.query not in failed
                for part, shared in tracks.split(track)
            ]
            work[site] = tuple(mine)
        self._compiled = {key: plan for key, plan in self._compiled.items() if key in known}
        if before is None and len(self._planned) >= MOST_PLANNED:
            self._planned.clear()
        self._planned[failed] = asked, work
        return work

    def _of_track(self, tracks: Tracks, track: Track, shared: bool) -> TrackWork:
        plan = self.plan_of(track)
        names = {state_of_aliases(n.aliases): n.states for n in plan.nodes() if isinstance(n, JoinNode)}
        return TrackWork(
            plan,
            track.partitions,
            track.since if shared else 0,
            track.until,
            tuple(
                (r.partitions, frozenset(name for s in r.states for name in names[s]))
                for r in tracks.lacking(track)
            ),
        )


def _key(track: Track) -> Key:
    return track.query, track.plan, track.since, track.until


def all_plans(work: Mapping[int, Sequence[TrackWork]]) -> tuple[LocalPlan, ...]:
    """Every plan that some site runs, once."""
    return tuple({id(w.plan): w.plan for mine in work.values() for w in mine}.values())


def is_over(
    plan: LocalPlan, track: Track, blocks: Sequence[BlockMeta], watermarks: Mapping[str, int | None]
) -> bool:
    """Whether no row from before the end of a track can be part of a result any more.

    Exact expiry: every reference's old rows are out of reach of all the others, about W after the
    newer track began. The purge rule of CAPE, lemma 2.2, would take 2W.
    """
    assert track.until is not None
    horizons = horizons_of(KeptStates.of([plan]), watermarks, {})
    leaves = {node.state for node in plan.nodes() if isinstance(node, LeafNode)}
    return all(
        may_drop(block, horizons[block.state])
        for block in blocks
        if block.state in leaves and block.batch < track.until and has_rows_of(block, track.partitions)
    )


def without_unread(
    blocks: Sequence[BlockMeta], needed: Mapping[StateId, PartitionSet]
) -> tuple[BlockMeta, ...]:
    """Blocks of intermediate states without the partitions on which no track keeps that state.

    What a migration or a move discards: were it left, a plan that takes the state up again would find
    rows in it that others have removed or replaced since. Partitions for which a track computes the state
    anew go too: a plan that is left and taken up again before a batch ran would find its rows twice.

    Parameters
    ----------
    needed
        By intermediate state the partitions on which some track keeps it; see `needed_partitions`.
    """
    kept = []
    for block in blocks:
        wanted = needed.get(block.state)
        if wanted is None or wanted == EVERY:
            kept.append(block)
        elif partitions := tuple((p, n) for p, n in block.partitions if p in wanted):
            kept.append(replace(block, partitions=partitions))
    return tuple(kept)


def needed_partitions(work: Mapping[int, Sequence[TrackWork]]) -> dict[StateId, PartitionSet]:
    """By intermediate state the partitions on which some track keeps it."""
    needed: dict[StateId, PartitionSet] = {}
    for plan, items in _by_plan(chain.from_iterable(work.values())):
        for state in join_states(plan):
            kept_by = (item.partitions - _lacking(item, state) for item in items)
            needed[state] = union((needed.get(state, NOTHING), *kept_by))
    return needed


def _by_plan(work: Iterable[TrackWork]) -> list[tuple[LocalPlan, list[TrackWork]]]:
    """The tracks of each plan; sites that run the same one share it."""
    found: dict[int, tuple[LocalPlan, list[TrackWork]]] = {}
    for item in work:
        found.setdefault(id(item.plan), (item.plan, []))[1].append(item)
    return list(found.values())


def join_states(plan: LocalPlan) -> set[StateId]:
    """Intermediate states that a plan reads."""
    return {state for node in plan.nodes() if not isinstance(node, LeafNode) for state in node.states}


def _lacking(work: TrackWork, state: StateId) -> PartitionSet:
    return union(partitions for partitions, states in work.rebuilds if state in states)


def _rows_of(blocks: Sequence[BlockMeta], partitions: PartitionSet) -> int:
    return sum(n for block in blocks for p, n in block.partitions if p in partitions)


def has_rows_of(block: BlockMeta, partitions: PartitionSet) -> bool:
    """Whether a block has rows of some of the partitions."""
    return any(p in partitions for p, _ in block.partitions)
