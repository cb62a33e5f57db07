"""Tracks: which plan works on which partitions of a query, and for which rows.

Every result has a first row: the one that came in the earliest batch. A *track* owns the results
whose first row came in its batches `[since, until)`, so the tracks of a partition share its
results out without overlap, whatever runs where:

    track 1  [0, 8)   plan ((a b) c) at site 0      ends when nothing before batch 8 is in a window
    track 2  [8, …)   plan ((b c) a) at site 3      has seen nothing older than batch 8

That is the parallel track of CAPE, section 4.2, and with another site that of
D-CAPE, section 3. Moving state (sections 4.1 and 4) gives the track itself another plan
or site: states that both plans have stay as they are, the others are rebuilt in the next batch. What another
query keeps of them is there already (`adapt.tracks.common`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from anabranch.adapt.events import Event, EventKind
from anabranch.adapt.tracks.common import ALONE, Common
from anabranch.exchange.address import PARTITIONS
from anabranch.exchange.partition_map import PartitionMap
from anabranch.exchange.partition_set import EVERY, NOTHING, PartitionSet, union
from anabranch.plan.cost.migration_cost import Strategy
from anabranch.plan.stations.readdressing import Readdressing
from anabranch.plan.tree import inner_states, parse_plan


@dataclass(frozen=True, slots=True)
class Migration:
    """One site's change to another plan of a query."""

    query: str
    site: int
    plan: str
    strategy: Strategy


@dataclass(frozen=True, slots=True)
class Track:
    """A plan at work on some partitions at a site; `until` is None as long as no other follows."""

    query: str
    plan: str
    site: int
    partitions: PartitionSet
    since: int = 0
    until: int | None = None


@dataclass(frozen=True, slots=True)
class Rebuild:
    """States, by the aliases they cover, that a track lacks until the next batch computes them."""

    query: str
    since: int
    partitions: PartitionSet
    states: frozenset[str]

    def part_of(self, track: Track) -> PartitionSet:
        """The partitions for which it is this track that lacks them."""
        return (
            self.partitions & track.partitions
            if (self.query, self.since) == (track.query, track.since)
            else NOTHING
        )


@dataclass(frozen=True, slots=True)
class Transfer:
    """Partitions whose rows are still at a site that they have left: copied in the next batch."""

    source: int
    target: int
    partitions: PartitionSet


@dataclass(frozen=True, slots=True)
class Tracks:
    """The tracks of all joins of a session.

    Attributes
    ----------
    plans
        By query, the plan of every site.
    began
        By query, the partitions by the batch in which their newest track began; all at 0 if missing.
    ending
        Tracks that work until their rows have left the windows.
    rebuilds
        What moving state has left to do.
    transfers
        What is left to copy, where sites share nothing.
    relaid
        Rows of joins that are laid out otherwise from the next step on, which gives them new addresses.
    """

    plans: Mapping[str, tuple[str, ...]]
    began: Mapping[str, Mapping[int, PartitionSet]] = field(default_factory=dict)
    ending: tuple[Track, ...] = ()
    rebuilds: tuple[Rebuild, ...] = ()
    transfers: tuple[Transfer, ...] = ()
    relaid: tuple[Readdressing, ...] = ()

    def newest(self, query: str, site: int, owned: PartitionSet) -> list[Track]:
        """The tracks without an end on partitions that a site owns."""
        plan = self.plans[query][site]
        groups = self.began.get(query, {0: EVERY})
        return [
            Track(query, plan, site, mask & owned, since) for since, mask in groups.items() if mask & owned
        ]

    def lacking(self, track: Track) -> list[Rebuild]:
        """What a track must compute before its next rows: per set of states, for its own partitions."""
        return [replace(r, partitions=partitions) for r in self.rebuilds if (partitions := r.part_of(track))]

    def split(self, track: Track) -> list[tuple[Track, bool]]:
        """A track in parts: with and without an older one that still works on its partitions.

        Where there is one, the track sees only rows since it began.
        """
        older = NOTHING
        for other in self.ending:
            if other.query == track.query and other.until == track.since:
                older |= other.partitions
        parts = ((track.partitions & older, True), (track.partitions - older, False))
        return [(replace(track, partitions=mask), shared) for mask, shared in parts if mask]

    def migrated(self, change: Migration, owned: PartitionSet, batch: int, common: Common = ALONE) -> Tracks:
        """These tracks when a site changes to another plan before batch `batch`."""
        tracks = self
        strategy = common.strategy(change.query, change.strategy)
        for track in self.newest(change.query, change.site, owned):
            there = self.kept_by_others(track, change.plan, common)
            tracks = tracks._succeed(track, change.plan, strategy, batch, there)
        plans = list(self.plans[change.query])
        plans[change.site] = change.plan
        return replace(tracks, plans={**self.plans, change.query: tuple(plans)})

    def followed(self, change: Migration, owned: PartitionSet, may: Callable[[Track], bool]) -> Tracks:
        """These tracks when those that end at a site change to its new plan, too, by moving state.

        Partitions that have left the site keep it busy for as long as a window, with the old plan, otherwise.

        Parameters
        ----------
        owned
            Partitions of the site: an older track on these was meant to end with the plan it has.
        may
            Whether a track can change to the plan, and should.
        """
        tracks = self
        for track in self.ending if change.strategy is Strategy.MOVING_STATE else ():
            is_here = (track.query, track.site) == (change.query, change.site)
            if is_here and not track.partitions & owned and may(track):
                ending = tuple(replace(t, plan=change.plan) if t is track else t for t in tracks.ending)
                tracks = replace(tracks._rebuilding(track, change.plan), ending=ending)
        return tracks

    def replanned(self, change: Migration, until: int) -> Tracks:
        """These tracks when those that end at a site with a batch have gone over to a plan without states."""
        whose = change.query, change.site, until
        ending = (
            replace(t, plan=change.plan) if (t.query, t.site, t.until) == whose else t for t in self.ending
        )
        return replace(self, ending=tuple(ending))

    def moved(
        self,
        before: PartitionMap,
        after: PartitionMap,
        strategy: Strategy,
        batch: int,
        common: Common = ALONE,
    ) -> Tracks:
        """These tracks when partitions change sites before batch `batch`."""
        tracks = self._with_sites(before, after)
        for (source, target), mask in before.moves_to(after).items():
            for query in self.plans:
                how, plan = common.strategy(query, strategy), tracks.plans[query][target]
                for track in self.newest(query, source, mask):
                    there = self.kept_by_others(track, plan, common)
                    here = replace(track, site=min(source, after.sites - 1))  # its own may be gone
                    tracks = tracks._succeed(here, plan, how, batch, there)
        return tracks

    def kept_by_others(self, track: Track, plan: str, common: Common) -> dict[str, PartitionSet]:
        """Of the states of a plan, the partitions of a track on which other queries have them."""
        found: dict[str, PartitionSet] = {}
        for state in inner_states(plan) if common.shared.states else ():
            for query, theirs in common.elsewhere(track.query, state):
                if query in self.plans and theirs in inner_states(self.plans[query][track.site]):
                    lacking = union(
                        r.partitions for r in self.rebuilds if r.query == query and theirs in r.states
                    )
                    found[state] = found.get(state, NOTHING) | (track.partitions - lacking)
        return found

    def recomputed(self, query: str, here: PartitionMap, partitions: PartitionSet) -> Tracks:
        """These tracks when all intermediate states of some partitions have to be computed anew.

        Queries that share any of these states share its inputs, and so the reason: they are told, too.
        """
        tracks = self
        for site, owned in enumerate(here.partitions_by_site()):
            for track in self.newest(query, site, owned & partitions):
                alone = parse_plan(track.plan).aliases[0]  # a plan without states: all of them are missing
                tracks = tracks._rebuilding(replace(track, plan=alone), track.plan)
        return tracks

    def shipping(self, before: PartitionMap, after: PartitionMap) -> Tracks:
        """These tracks when partitions change between sites that share nothing."""
        homes = list(before.site_of_partition)
        for transfer in self.transfers:  # not carried out yet: the rows are where they were
            for p in transfer.partitions:
                homes[p] = transfer.source
        moves = PartitionMap(tuple(homes), max(homes) + 1).moves_to(after)
        return replace(self, transfers=tuple(Transfer(s, t, mask) for (s, t), mask in moves.items()))

    def rebuilt(self) -> Tracks:
        """These tracks after a batch, in which what was lacking was computed and copied."""
        pending = self.rebuilds or self.transfers or self.relaid
        return replace(self, rebuilds=(), transfers=(), relaid=()) if pending else self

    def without_ended(self, over: Callable[[Track], bool]) -> tuple[Tracks, tuple[Track, ...]]:
        """These tracks without those that are over, and those."""
        ended = tuple(track for track in self.ending if over(track))
        left = tuple(t for t in self.ending if t not in ended)
        rebuilds = self.rebuilds
        for track in ended:  # what they still lacked nobody needs any more
            rest = (replace(r, partitions=r.partitions - r.part_of(track)) for r in rebuilds)
            rebuilds = tuple(r for r in rest if r.partitions)
        return replace(self, ending=left, rebuilds=rebuilds), ended

    def for_queries(self, defaults: Mapping[str, str], sites: int) -> Tracks:
        """These tracks for the queries of a session, each with its plan where none is known."""
        return Tracks(
            {q: self.plans.get(q, (plan,) * sites) for q, plan in defaults.items()},
            {q: groups for q, groups in self.began.items() if q in defaults},
            tuple(t for t in self.ending if t.query in defaults),
            tuple(r for r in self.rebuilds if r.query in defaults),
            self.transfers,
            self.relaid,
        )

    def beside(self, defaults: Mapping[str, str]) -> Tracks:
        """These tracks without the plans that `for_queries` would put in again: what is worth telling."""
        plans = {q: mine for q, mine in self.plans.items() if set(mine) != {defaults.get(q)}}
        return replace(self, plans=plans)

    def to_json(self) -> dict[str, Any]:
        return {
            "plans": {q: list(plans) for q, plans in self.plans.items()},
            "began": {q: {str(s): m.to_hex() for s, m in g.items()} for q, g in self.began.items()},
            "ending": [
                [t.query, t.plan, t.site, t.partitions.to_hex(), t.since, t.until] for t in self.ending
            ],
            "rebuilds": [[r.query, r.since, r.partitions.to_hex(), sorted(r.states)] for r in self.rebuilds],
            "transfers": [[t.source, t.target, t.partitions.to_hex()] for t in self.transfers],
            "relaid": [rows.to_json() for rows in self.relaid],
        }

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Tracks:
        parse = PartitionSet.from_hex
        return cls(
            {q: tuple(plans) for q, plans in value.get("plans", {}).items()},
            {q: {int(s): parse(m) for s, m in g.items()} for q, g in value.get("began", {}).items()},
            tuple(Track(q, p, s, parse(m), b, e) for q, p, s, m, b, e in value.get("ending", ())),
            tuple(Rebuild(q, b, parse(m), frozenset(s)) for q, b, m, s in value.get("rebuilds", ())),
            tuple(Transfer(s, t, parse(m)) for s, t, m in value.get("transfers", ())),
            tuple(map(Readdressing.from_json, value.get("relaid", ()))),
        )

    def _succeed(
        self, track: Track, plan: str, strategy: Strategy, batch: int, there: Mapping[str, PartitionSet]
    ) -> Tracks:
        """These tracks with another plan, or site, in the place of `track`.

        Parameters
        ----------
        there
            Partitions on which other queries have a state of the plan.
        """
        if strategy is Strategy.PARALLEL_TRACK and track.since < batch:
            began = {s: m - track.partitions for s, m in self.began.get(track.query, {0: EVERY}).items()}
            began[batch] = began.get(batch, NOTHING) | track.partitions
            return replace(
                self,
                began={**self.began, track.query: {s: m for s, m in began.items() if m}},
                ending=_with_track(self.ending, replace(track, until=batch)),
            )
        # A track that begins with this very batch cannot end before it: it takes the other plan, or site.
        tracks = self
        for partitions, states in _apart(track.partitions, there):
            tracks = tracks._rebuilding(replace(track, partitions=partitions), plan, states)
        return tracks

    def _rebuilding(self, track: Track, plan: str, there: frozenset[str] = frozenset()) -> Tracks:
        """These tracks with what `track` lacks for another plan, of which some states are there."""
        missing = inner_states(plan) - inner_states(track.plan) - there
        kept, pending = [], frozenset[str]()
        rebuilds: list[Rebuild] = []
        for rebuild in self.rebuilds:
            overlap = rebuild.part_of(track)
            if not overlap:
                kept.append(rebuild)
                continue
            if rest := rebuild.partitions - overlap:
                kept.append(replace(rebuild, partitions=rest))
            pending = (rebuild.states & inner_states(plan)) | missing
            rebuilds.append(replace(rebuild, partitions=overlap, states=pending))
        fresh = track.partitions
        for rebuild in rebuilds:
            fresh -= rebuild.partitions
        if fresh:
            rebuilds.append(Rebuild(track.query, track.since, fresh, missing))
        return replace(self, rebuilds=(*kept, *(r for r in rebuilds if r.states)))

    def _with_sites(self, before: PartitionMap, after: PartitionMap) -> Tracks:
        """A plan for every site there is now: a new site takes that of the first partition it gets."""
        if after.sites == before.sites:
            return self
        heirs = [min(s, before.sites - 1) for s in range(after.sites)]
        for p in reversed(range(PARTITIONS)):
            if after.site_of_partition[p] >= before.sites:
                heirs[after.site_of_partition[p]] = before.site_of_partition[p]
        return replace(
            self,
            plans={q: tuple(plans[heir] for heir in heirs) for q, plans in self.plans.items()},
            ending=tuple(replace(t, site=min(t.site, after.sites - 1)) for t in self.ending),
        )


def _apart(
    partitions: PartitionSet, there: Mapping[str, PartitionSet]
) -> Iterator[tuple[PartitionSet, frozenset[str]]]:
    """Partitions by the states that are there."""
    parts = {frozenset[str](): partitions}
    for state, mask in there.items():
        halves = [(p & mask, states | {state}) for states, p in parts.items()]
        halves += [(p - mask, states) for states, p in parts.items()]
        parts = {states: p for p, states in halves if p}
    yield from ((p, states) for states, p in parts.items())


def _with_track(tracks: tuple[Track, ...], track: Track) -> tuple[Track, ...]:
    """Tracks and one more. Partitions that leave a site together end as one track, wherever they go."""
    for other in tracks:
        if other == replace(track, partitions=other.partitions):
            both = replace(other, partitions=other.partitions | track.partitions)
            return tuple(both if t is other else t for t in tracks)
    return (*tracks, track)


def track_events(batch: int, before: Tracks, after: Tracks, ended: Iterable[Track]) -> list[Event]:
    """Tell what changed: tracks that end from now on, tracks that have ended, states to rebuild."""
    events = []
    for track in after.ending:
        if track in before.ending:
            continue
        if any(track == replace(t, plan=track.plan) for t in before.ending):
            message = f"{_told(track)} is the plan of its site now, for rows that end there, too"
            events.append(Event(batch, EventKind.STATE_MOVED, message))
        else:
            message = f"{_told(track)} works until its rows have left the windows; a new track begins"
            events.append(Event(batch, EventKind.TRACK_BEGAN, message))
    for track in ended:
        age = batch + 1 - (track.until or 0)
        message = (
            f"{_told(track)}: all its rows have left the windows, {age} batches after the new track began"
        )
        events.append(Event(batch, EventKind.TRACK_ENDED, message))
    for rebuild in after.rebuilds:
        message = (
            f"query {rebuild.query}: states {', '.join(sorted(rebuild.states))} of "
            f"{len(rebuild.partitions)} partitions are computed in the next batch; the others match"
        )
        events.append(Event(batch, EventKind.STATE_MOVED, message))
    return events


def _told(track: Track) -> str:
    return (
        f"query {track.query}: plan {track.plan} of {len(track.partitions)} partitions at site {track.site}"
    )
