"""Steering: what changes between two batches, in one order, so that the policies do not fight.

First partitions change sites, then sites change plans, unless partitions of theirs have just moved; last,
tracks end that have no rows any more, and those that followed them settle. All judgement is in `adapt`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from anabranch.adapt.events import AdaptEvent, EventKind
from anabranch.adapt.tracks import Migration, Track, Tracks, partitions_of, track_events
from anabranch.errors import ConfigError
from anabranch.exchange.partition_map import PartitionMap
from anabranch.plan.local_plan import LocalPlan
from anabranch.plan.migration_cost import Strategy
from anabranch.plan.tree import parse_plan
from anabranch.runtime.adaptation import Adaptation, state_bytes
from anabranch.runtime.admission import Admission, oldest_waiting, waiting_blocks
from anabranch.runtime.catalog import Catalog
from anabranch.runtime.memory_plan import held_by_state
from anabranch.runtime.plan_adaptation import PlanAdaptation
from anabranch.runtime.reports import SlotReport
from anabranch.runtime.settings import Settings
from anabranch.runtime.settled_tracks import settled
from anabranch.runtime.site_work import TrackCompiler
from anabranch.state import BlockMeta, StreamState
from anabranch.state.expiry import held_back

IsOver = Callable[[LocalPlan, Track, Sequence[BlockMeta], Mapping[str, int | None]], bool]
"""Whether a track that ends has no rows any more (`site_work.is_over`)."""


class Steering:
    """What a session changes while it runs.

    Parameters
    ----------
    remembered
        What `to_json` gave for the last manifest; empty in a new checkpoint.
    """

    def __init__(
        self,
        settings: Settings,
        catalog: Catalog,
        compiler: TrackCompiler,
        is_over: IsOver,
        remembered: Mapping[str, Any],
    ) -> None:
        self._layout = catalog.layout
        self._compiler = compiler
        self._is_over = is_over
        self._held = held_by_state(catalog.plans)
        self._adaptation = Adaptation(settings, remembered, self._held)
        self._plans = PlanAdaptation(catalog.layout, catalog.streams, remembered.get("plans", {}))
        self._wishes: list[Migration] = []

    @property
    def settings(self) -> Settings:
        return self._adaptation.settings

    @settings.setter
    def settings(self, settings: Settings) -> None:
        self._adaptation.settings = settings

    def to_json(self) -> dict[str, Any]:
        """What the manifest must remember."""
        return {**self._adaptation.to_json(), "plans": self._plans.to_json()}

    def admission(self) -> Admission:
        """What the sites may take in the next batch."""
        return self._adaptation.admission()

    def plan_memory(self, batch: int, partition_map: PartitionMap, blocks: Sequence[BlockMeta]) -> None:
        """Decide what is in memory for the next batch, from blocks that it will start from."""
        self._adaptation.plan_memory(batch, partition_map, state_bytes(blocks, self._held))

    def look(self, batch: int) -> int | None:
        """Number of the look at how streams meet that is due in a batch, if any."""
        return self._plans.look(batch)

    def wish(self, query: str, plan: str, sites: Sequence[int], strategy: str, tracks: Tracks) -> None:
        """Let sites change to another plan at the next boundary."""
        if query not in tracks.plans:
            raise ConfigError(f"there is no join {query!r}: choose from {', '.join(tracks.plans)}")
        if strategy not in list(Strategy):
            raise ConfigError(f"strategy {strategy!r}: choose from {', '.join(Strategy)}")
        if strategy == Strategy.PARALLEL_TRACK and query in self._plans.unending:
            raise ConfigError(
                f"{query!r} has a window [RANGE UNBOUNDED], whose rows never leave: a parallel track would "
                "not end. Use strategy 'moving_state', or give the window a length"
            )
        there = self.settings.sites  # from the next boundary on
        if unknown := [site for site in sites if not 0 <= site < there]:
            raise ConfigError(f"there is no site {unknown[0]}: choose from 0 to {there - 1}")
        known = parse_plan(tracks.plans[query][0]).aliases
        try:
            tree = parse_plan(plan)
        except ValueError as error:
            raise ConfigError(str(error)) from error
        if sorted(tree.aliases) != sorted(known):
            raise ConfigError(f"plan {plan} must join each of {', '.join(sorted(known))} once")
        self._wishes += [Migration(query, site, str(tree), Strategy(strategy)) for site in sites]

    def moved(
        self, tracks: Tracks, before: PartitionMap, after: PartitionMap, strategy: Strategy, batch: int
    ) -> Tracks:
        """The tracks once partitions have changed sites."""
        tracks = tracks.moved(before, after, strategy, batch, self._plans.unending)
        return tracks.shipping(before, after) if self.settings.isolation == "per_site" else tracks

    def after(
        self,
        batch: int,
        before: PartitionMap,
        tracks: Tracks,
        reports: Sequence[SlotReport],
        *,
        streams: Sequence[StreamState],
        elapsed_s: float,
        blocks: Sequence[BlockMeta],
    ) -> tuple[PartitionMap, Tracks, tuple[BlockMeta, ...], tuple[AdaptEvent, ...]]:
        """Take note of a batch and decide what changes before the next one.

        Parameters
        ----------
        before, tracks
            The map and the tracks under which the batch ran.
        streams, blocks
            What the next batch will start from.
        elapsed_s
            Event time that passed in the batch.
        """
        old = tracks
        relocating = any(t.partitions & ~partitions_of(before, t.site) for t in tracks.ending)
        after, decided = self._adaptation.after(batch, before, reports, blocks, relocating)
        if after.sites != self.settings.sites:
            after = after.rescaled(self.settings.sites)
            self.plan_memory(batch, after, blocks)
        events = list(decided)
        tracks = tracks.rebuilt()
        if after != before:
            tracks = self.moved(tracks, before, after, self._strategy(old, before, after), batch + 1)
        proposed, reasons = self._migrations(batch, old, before, reports, elapsed_s)
        events += reasons
        tracks, postponed = self._migrated(batch, tracks, proposed, before, after, blocks)
        events += postponed
        watermarks = {s.name: s.watermark for s in streams}
        held = held_back(watermarks, oldest_waiting(self._layout, waiting_blocks(self._layout, blocks)))
        tracks, ended = tracks.without_ended(
            lambda track: self._is_over(self._compiler.plan_of(track), track, blocks, held)
        )
        events += track_events(batch, old, tracks, ended)
        self._adaptation.remember(events)
        tracks, named = settled(tracks, blocks, self._compiler.plan_of)
        return after, tracks, named, tuple(events)

    def _migrated(
        self,
        batch: int,
        tracks: Tracks,
        proposed: Sequence[Migration],
        before: PartitionMap,
        after: PartitionMap,
        blocks: Sequence[BlockMeta],
    ) -> tuple[Tracks, list[AdaptEvent]]:
        """The tracks with wishes and proposals followed, and what had to wait."""
        events = []
        wished, self._wishes = self._wishes, []
        for change in (*wished, *proposed):
            if change.query not in tracks.plans or change.site >= after.sites:
                continue
            if partitions_of(before, change.site) != partitions_of(after, change.site):
                message = f"{change.plan} at site {change.site} has to wait: partitions of the site move"
                events.append(AdaptEvent(batch, EventKind.PLAN_POSTPONED, message))
                if change in wished:  # the policy will propose again what it still wants
                    self._wishes.append(change)
                continue
            owned = partitions_of(after, change.site)
            may = partial(self._compiler.may_follow, plan=change.plan, owned=owned, blocks=blocks)
            tracks = tracks.followed(change, owned, may)
            tracks = tracks.migrated(change, owned, batch + 1)
        return tracks, events

    def _migrations(
        self,
        batch: int,
        tracks: Tracks,
        partition_map: PartitionMap,
        reports: Sequence[SlotReport],
        elapsed_s: float,
    ) -> tuple[Sequence[Migration], Sequence[AdaptEvent]]:
        """What the plan policy wants to change, and its reasons."""
        sites = [site for r in reports for site in r.sites]
        return self._plans.after(batch, tracks, partition_map, sites, elapsed_s, self.settings.migration)

    def _strategy(self, tracks: Tracks, before: PartitionMap, after: PartitionMap) -> Strategy:
        """How partitions change sites where plans differ."""
        copies = self.settings.isolation == "per_site"
        return self._plans.rebalancing(tracks, before, after, self.settings.rebalance, copies=copies)
