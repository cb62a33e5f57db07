"""From choices to decisions: what moves and other plans mean for the tracks, whoever chose them."""

from __future__ import annotations

from functools import partial

from anabranch.adapt.boundary.decisions import Choice, Decisions
from anabranch.adapt.boundary.observed import Observed
from anabranch.adapt.events import Event, EventKind
from anabranch.adapt.memory.admission import Admission
from anabranch.adapt.tracks.tracks import Migration, Tracks, track_events
from anabranch.exchange.partition_map import PartitionMap
from anabranch.plan.cost.migration_cost import Strategy

_MEBIBYTE = 1 << 20


def enact(choice: Choice, observed: Observed) -> Decisions:
    """What changes before the next step, in one order.

    First, states are lacking of which keys were left out; then partitions change sites, then sites change
    plans, unless partitions of theirs have just moved; last, tracks end that have no rows any more, and those
    that followed them settle.
    """
    batch, before, after = observed.batch, observed.partition_map, choice.partition_map
    tracks, abandoned = _without_abandoned(observed.tracks.rebuilt(), observed)
    for query, partitions in choice.cooled.items():
        tracks = tracks.recomputed(query, before, partitions)
    if after != before:
        tracks = _moved(tracks, observed, after=after, strategy=choice.strategy)
    tracks, postponed = _migrated(tracks, choice, observed)
    tracks, ended = tracks.without_ended(observed.rules.is_over)
    waits = [_postponed(batch, change) for change in postponed]
    events = (*choice.events, *abandoned, *waits, *track_events(batch, observed.tracks, tracks, ended))
    tracks, renames = observed.rules.settled(tracks)
    # The policy will propose again what it still wants.
    asked = tuple(change for change in postponed if change in observed.requests)
    return Decisions(
        after,
        tracks,
        choice.admission,
        renames,
        asked,
        events,
        router=choice.router,
        eddies=choice.eddies,
        spread=choice.spread,
        orderings=choice.orderings,
        weighed=choice.weighed,
        dissolved=choice.dissolved,
        trees=choice.trees,
    )


def start_with(admission: Admission, observed: Observed) -> Decisions:
    """What a session starts with: the map and the tracks there are, spread over the sites there are now."""
    before, sites = observed.partition_map, observed.settings.sites
    after = before if before.sites == sites else before.rescaled(sites)
    tracks = _moved(observed.tracks, observed, after=after, strategy=Strategy.MOVING_STATE)
    return Decisions(after, tracks, admission)


def _moved(tracks: Tracks, observed: Observed, *, after: PartitionMap, strategy: Strategy) -> Tracks:
    """The tracks once partitions have changed sites."""
    before = observed.partition_map
    tracks = tracks.moved(before, after, strategy, observed.batch + 1, observed.common)
    return tracks.shipping(before, after) if observed.settings.copies else tracks


def _without_abandoned(tracks: Tracks, observed: Observed) -> tuple[Tracks, list[Event]]:
    """The tracks without plans that sites left in mid-batch: what these would have kept is missing."""
    events = []
    for report in observed.sites:
        for left in report.abandoned:
            change = Migration(left.query, report.site, left.instead, Strategy.MOVING_STATE)
            if left.until is None:
                owned = observed.partition_map.partitions_of(report.site)
                tracks = tracks.migrated(change, owned, observed.batch + 1, observed.common)
            else:
                tracks = tracks.replanned(change, left.until)
            message = (
                f"query {left.query} at site {report.site}: {left.plan} would have kept more than "
                f"{left.budget / _MEBIBYTE:,.1f} MiB (work_memory_mb) of intermediate rows in one batch; "
                f"it goes on without them: {left.instead}"
            )
            data = {"query": left.query, "site": report.site, "old": left.plan, "new": left.instead}
            events.append(Event(observed.batch, EventKind.PLAN_ABANDONED, message, data))
    return tracks, events


def _migrated(tracks: Tracks, choice: Choice, observed: Observed) -> tuple[Tracks, list[Migration]]:
    """The tracks with requests and choices followed, and those that have to wait."""
    postponed = []
    before, after = observed.partition_map, choice.partition_map
    for change in (*observed.requests, *choice.migrations):
        if change.query not in tracks.plans or change.site >= after.sites:
            continue
        owned = after.partitions_of(change.site)
        if before.partitions_of(change.site) != owned:
            postponed.append(change)
            continue
        may = partial(observed.rules.may_follow, plan=change.plan, owned=owned)
        tracks = tracks.followed(change, owned, may)
        tracks = tracks.migrated(change, owned, observed.batch + 1, observed.common)
    return tracks, postponed


def _postponed(batch: int, change: Migration) -> Event:
    message = f"{change.plan} at site {change.site} has to wait: partitions of the site move"
    return Event(batch, EventKind.PLAN_POSTPONED, message)
