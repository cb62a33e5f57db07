"""The batch loop: enter a batch, run it, commit it, publish it. Exactly once, whatever happens.

Free of Spark: `execute` runs the slots somewhere and returns their reports.

    blocks, staged results (fsynced) ─► manifest (put-if-absent) ─► results into the sinks ─► return
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from anabranch.adapt.events import AdaptEvent, EventKind
from anabranch.adapt.tracks import Migration, Track, Tracks, partitions_of, track_events
from anabranch.errors import ConfigError, StateError
from anabranch.exchange.partition_map import PartitionMap
from anabranch.plan.local_plan import LeafNode, LocalPlan
from anabranch.plan.logical import Stream
from anabranch.plan.migration_cost import Strategy
from anabranch.plan.tree import parse_plan
from anabranch.runtime.adaptation import Adaptation
from anabranch.runtime.admission import entered_state, is_waiting
from anabranch.runtime.catalog import Catalog
from anabranch.runtime.event_log import log_events
from anabranch.runtime.finality import emissions_of, pending_rows, trims_of, with_input_ended
from anabranch.runtime.laps import Laps
from anabranch.runtime.plan_adaptation import PlanAdaptation
from anabranch.runtime.reports import SlotReport, charge_packing
from anabranch.runtime.retention import bucket_lengths, live_blocks, states_of
from anabranch.runtime.settings import Settings
from anabranch.runtime.shipments import plan_shipments, without_shipped
from anabranch.runtime.sinks import ResultBatch, Sink
from anabranch.runtime.site_work import TrackCompiler, all_plans, is_over, without_strangers
from anabranch.runtime.slot_task import SlotTask
from anabranch.runtime.staging import keep_dead_letters, output_schema, verify_staged
from anabranch.runtime.wire import Wire, wire_of
from anabranch.state import (
    NO_PARENT,
    BlockMeta,
    Manifest,
    Storage,
    StreamState,
    digest,
    publish,
    recover,
)
from anabranch.state.compaction import plan_compaction
from anabranch.state.expiry import held_back
from anabranch.state.fence import Fence
from anabranch.state.garbage import collect_garbage
from anabranch.state.layout import STAGED

COLLECT_EVERY = 8
"""Batches between two collections of garbage."""
NEVER_LATE = -(1 << 63)


Execute = Callable[[SlotTask], Sequence[SlotReport]]
IsOver = Callable[[LocalPlan, Track, Sequence[BlockMeta], Mapping[str, int | None]], bool]
"""Whether a track that ends has no rows any more (`site_work.is_over`)."""


@dataclass(frozen=True, slots=True)
class BatchSummary:
    """What a batch did, for progress and tests."""

    manifest: Manifest
    reports: tuple[SlotReport, ...]
    seconds: Mapping[str, float]
    replayed: bool = False
    events: tuple[AdaptEvent, ...] = ()
    """What was decided at the boundary after the batch."""


class BatchLoop:
    """Runs the batches of a session on a checkpoint.

    Parameters
    ----------
    storage, fence
        The checkpoint, and the right to write to it.
    root
        Directory of the checkpoint, as tasks see it.
    catalog
        Streams and queries.
    sinks
        Sink by query name.
    execute
        Runs the slots of a batch.
    clock
        Unix time in seconds.
    is_over
        Tells when a parallel track ends; experiments take the paper's rule (`LemmaPurge`).
    """

    def __init__(
        self,
        *,
        storage: Storage,
        fence: Fence,
        root: Path,
        catalog: Catalog,
        settings: Settings,
        sinks: Mapping[str, Sink],
        execute: Execute,
        clock: Callable[[], float] = time.time,
        is_over: IsOver = is_over,
    ) -> None:
        self._storage = storage
        self._fence = fence
        self._root = root
        self._catalog = catalog
        self._settings = settings
        self._sinks = sinks
        self._execute = execute
        self._clock = clock
        self._is_over = is_over
        self.manifest = recover(storage)
        self._parent = digest(self.manifest) if self.manifest else NO_PARENT
        remembered = self.manifest.controller if self.manifest else {}
        self._adaptation = Adaptation(settings, remembered)
        self._plans = PlanAdaptation(catalog.layout, catalog.streams, remembered.get("plans", {}))
        self.layout = catalog.layout
        self._compiler = TrackCompiler(self.layout, catalog.plans)
        self.partition_map, self.tracks = self._starting_point()
        self._wishes: list[Migration] = []
        self.wire: Wire = wire_of(self.layout.inputs)
        for query in catalog.queries:
            sinks[query.name].open(query.name, output_schema(query))
        if self.manifest is not None and self.manifest.step:
            # Spark repeats a batch that it does not know to be done, but knows nothing of further steps.
            verify_staged(self._root, self.manifest)
            self._publish_results(self.manifest)

    def process(self, batch: int, *, offsets: str, source_id: str) -> BatchSummary:
        """Run batch `batch`, or finish publishing it when it has committed already."""
        self._check_entry(batch, offsets, source_id)
        if self.manifest is not None and self.manifest.batch == batch:
            # Staged by a process that is gone: whatever happened to the files since, it is not published.
            verify_staged(self._root, self.manifest)
            self._publish_results(self.manifest)
            return BatchSummary(self.manifest, (), {}, replayed=True)
        return self._run(batch, 0, offsets=offsets, source_id=source_id)

    def drain(self) -> list[BatchSummary]:
        """Let rows that wait enter, in steps of the last batch without new rows."""
        steps = []
        while self.manifest is not None and any(is_waiting(b.state) for b in self.manifest.blocks):
            at = self.manifest
            steps.append(self._run(at.batch, at.step + 1, offsets=at.offsets, source_id=at.source_id))
        return steps

    def end_of_input(self) -> list[BatchSummary]:
        """Declare that nothing at or before the newest times will come any more.

        Steps of the last batch, without new rows: what still waits enters, and then every row is final.
        """
        before = self.manifest
        if before is None or not pending_rows(before, self._catalog.running_plans()):
            return []
        ended = not any(is_waiting(b.state) for b in before.blocks)
        if ended:
            before = self.manifest = with_input_ended(before)
        step = self._run(before.batch, before.step + 1, offsets=before.offsets, source_id=before.source_id)
        return [step, *self.end_of_input()]

    def _run(self, batch: int, step: int, *, offsets: str, source_id: str) -> BatchSummary:
        laps = Laps()
        task = self._task(batch)
        laps.mark("plan")
        reports = tuple(self._execute(task))
        charge_packing(reports)
        laps.mark("execute")
        manifest, events = self._next_manifest(task, reports, offsets=offsets, source_id=source_id, step=step)
        self._fence.check()
        self._parent = publish(self._storage, manifest)
        self.manifest = manifest
        self.partition_map = PartitionMap(manifest.partition_map, manifest.sites)
        self.tracks = Tracks.from_json(manifest.tracks)
        laps.mark("commit")
        self._publish_results(manifest)
        if batch % COLLECT_EVERY == 0:
            collect_garbage(self._storage, keep=self._settings.keep_manifests)
        log_events(self._root, events)
        laps.mark("publish")
        return BatchSummary(manifest, reports, laps.seconds, events=events)

    def _check_entry(self, batch: int, offsets: str, source_id: str) -> None:
        """Refuse a batch that does not continue the state: it would skip or repeat rows."""
        newest_batch = self.manifest.batch if self.manifest else -1
        advice = "Restore both from the same moment, or start with a new checkpoint"
        if self.manifest is not None and self.manifest.source_id != source_id:
            raise StateError(
                f"the state is at batch {newest_batch}, but Spark's own checkpoint (folder 'spark' inside "
                f"ours) was deleted or replaced, so that Spark would start over. {advice}"
            )
        if batch not in (newest_batch, newest_batch + 1):
            raise StateError(
                f"Spark wants to run batch {batch}, but the state is at batch {newest_batch}: one of the two "
                f"was restored without the other. {advice}"
            )
        if self.manifest is not None and batch == newest_batch and self.manifest.offsets != offsets:
            raise StateError(
                f"batch {batch} was committed with other source offsets than Spark gives it now. {advice}"
            )

    def _starting_point(self) -> tuple[PartitionMap, Tracks]:
        """The checkpoint's map and tracks, spread over the sites and queries there are now."""
        sites = self._settings.sites
        joins = [p for p in self._catalog.plans if not isinstance(p.root, LeafNode)]
        defaults = {p.query.name: str(p.plan) for p in joins}
        if self.manifest is None:
            return PartitionMap.even(sites), Tracks({}).for_queries(defaults, sites)
        known = PartitionMap(self.manifest.partition_map, self.manifest.sites)
        tracks = Tracks.from_json(self.manifest.tracks).for_queries(defaults, known.sites)
        wanted = known if known.sites == sites else known.rescaled(sites)
        batch = self.manifest.batch + 1
        return wanted, self._moved(tracks, known, wanted, Strategy.MOVING_STATE, batch)

    def _moved(
        self, tracks: Tracks, before: PartitionMap, after: PartitionMap, strategy: Strategy, batch: int
    ) -> Tracks:
        tracks = tracks.moved(before, after, strategy, batch)
        return tracks.shipping(before, after) if self._settings.isolation == "per_site" else tracks

    def change(self, **settings: Any) -> None:
        """Change settings from the next boundary on: `sites`, `memory_budget_mb` and the like."""
        values = [(name, str(value)) for name, value in settings.items()]
        self._settings = self._adaptation.settings = self._settings.with_values(values)

    def migrate(self, query: str, plan: str, site: int | None = None, strategy: str = "moving_state") -> None:
        """Let one site, or all, change to another plan at the next boundary."""
        if query not in self.tracks.plans:
            raise ConfigError(f"there is no join {query!r}: choose from {', '.join(self.tracks.plans)}")
        if strategy not in list(Strategy):
            raise ConfigError(f"strategy {strategy!r}: choose from {', '.join(Strategy)}")
        known = parse_plan(self.tracks.plans[query][0]).aliases
        try:
            tree = parse_plan(plan)
        except ValueError as error:
            raise ConfigError(str(error)) from error
        if sorted(tree.aliases) != sorted(known):
            raise ConfigError(f"plan {plan} must join each of {', '.join(sorted(known))} once")
        sites = range(self.partition_map.sites) if site is None else (site,)
        self._wishes += [Migration(query, s, str(tree), Strategy(strategy)) for s in sites]

    def _task(self, batch: int) -> SlotTask:
        work = self._compiler.work(self.tracks, self.partition_map, self._catalog.failed())
        plans = all_plans(work)
        watermarks = self._watermarks()
        stored = self.manifest.blocks if self.manifest else ()
        waiting = self._waiting(stored)
        held = held_back(watermarks, self._oldest(waiting))
        blocks = without_strangers(live_blocks(stored, plans, held, self._catalog.emitted()), work)
        emissions = emissions_of(plans, held, self._catalog.emitted())
        shipments = plan_shipments(
            self.tracks.transfers, blocks, work, buckets=bucket_lengths(plans), barriers=self._barriers()
        )
        leaving = {name for s in shipments for name in s.blocks}
        slots = min(self._settings.slots, self.partition_map.sites)
        drift = self._settings.max_drift_seconds
        by_input = (watermarks[source.stream] for source in self.layout.inputs)
        return SlotTask(
            checkpoint=self._root,
            batch=batch,
            slots=slots,
            partition_map=self.partition_map,
            layout=self.layout,
            wire=self.wire,
            streams=tuple(s.name for s in self._catalog.streams),
            earliest=tuple(NEVER_LATE if w is None else w for w in by_input),
            latest=int((self._clock() + drift) * 1_000_000) if drift else (1 << 63) - 1,
            work=work,
            stateful=frozenset(states_of(plans)),
            blocks=blocks + waiting,
            merges=self._merges([b for b in blocks if b.name not in leaving], plans, slots),
            quota_pairs=self._settings.quota_pairs,
            admission=self._adaptation.admission(),
            spillable=frozenset(states_of(p for p in plans if p.window is None))
            - states_of(p for p in plans if p.window is not None),
            emissions=emissions,
            trims=trims_of(plans, emissions),
            shipments=shipments,
        )

    def _waiting(self, blocks: Sequence[BlockMeta]) -> tuple[BlockMeta, ...]:
        """Blocks of rows that wait to enter a state; those of a removed query wait for nothing."""
        inputs = {source.state for source in self.layout.inputs}
        return tuple(b for b in blocks if is_waiting(b.state) and entered_state(b.state) in inputs)

    def _oldest(self, waiting: Sequence[BlockMeta]) -> dict[str, int]:
        """Per stream the oldest event time of a row that waits."""
        stream_of = {source.state: source.stream for source in self.layout.inputs}
        oldest: dict[str, int] = {}
        for block in waiting:
            stream = stream_of[entered_state(block.state)]
            oldest[stream] = min(block.min_ts, oldest.get(stream, block.min_ts))
        return oldest

    def _merges(
        self, blocks: Sequence[BlockMeta], plans: Sequence[LocalPlan], slots: int
    ) -> tuple[tuple[str, ...], ...]:
        merges: tuple[tuple[str, ...], ...] = ()
        for state, bucket_us in bucket_lengths(plans).items():
            merges += plan_compaction(
                [b for b in blocks if b.state == state],
                bucket_us=bucket_us,
                max_blocks=self._settings.max_blocks * slots,
                barriers=self._barriers(),
                separate_slots=True,
            )
        return merges

    def _barriers(self) -> list[int]:
        """Batches at which tracks began while older ones still work: rows from before stay apart."""
        return sorted({t.until for t in self.tracks.ending if t.until is not None})

    def _watermarks(self) -> dict[str, int | None]:
        known = {s.name: s.watermark for s in self.manifest.streams} if self.manifest else {}
        return {s.name: known.get(s.name) for s in self._catalog.streams}

    def _next_manifest(
        self, task: SlotTask, reports: Sequence[SlotReport], *, offsets: str, source_id: str, step: int
    ) -> tuple[Manifest, tuple[AdaptEvent, ...]]:
        merged = {name for group in task.merges for name in group}
        failures = {query: message for r in reports for query, message in r.failures.items()}
        until = {name: e.until for name, e in task.emissions.items()}
        self._catalog = self._catalog.with_failures(failures).with_emitted(until)
        blocks = (
            # Waiting rows have entered, or wait again in blocks of this batch.
            *(
                b
                for b in without_shipped(task.blocks, task.shipments)
                if b.name not in merged and not is_waiting(b.state)
            ),
            *(b for r in reports for b in r.blocks),
        )
        streams = self._stream_states(reports)
        next_map, tracks, events = self._adapted(task, reports, streams, blocks)
        manifest = Manifest(
            batch=task.batch,
            step=step,
            parent=self._parent,
            epoch=self._fence.epoch,
            attempt=secrets.token_hex(8),
            offsets=offsets,
            source_id=source_id,
            committed_at=self._clock(),
            streams=streams,
            blocks=blocks,
            partition_map=next_map.site_of_partition,
            sites=next_map.sites,
            tracks=tracks.to_json(),
            queries=self._catalog.states,
            catalog=self._catalog.to_json(),
            results=tuple(f for r in reports for f in r.results if f.query not in failures),
            dead_letters=tuple(f for r in reports for f in r.dead_letters),
            controller={**self._adaptation.to_json(), "plans": self._plans.to_json()},
        )
        return manifest, events

    def _adapted(
        self,
        task: SlotTask,
        reports: Sequence[SlotReport],
        streams: Sequence[StreamState],
        blocks: Sequence[BlockMeta],
    ) -> tuple[PartitionMap, Tracks, tuple[AdaptEvent, ...]]:
        """What changes before the next batch: sites of partitions, plans of sites, tracks that end."""
        before, batch = task.partition_map, task.batch + 1
        relocating = any(t.partitions & ~partitions_of(before, t.site) for t in self.tracks.ending)
        after, decided = self._adaptation.after(task.batch, before, reports, blocks, relocating)
        wanted = self._adaptation.settings.sites
        if after.sites != wanted:
            after = after.rescaled(wanted)
        events = list(decided)
        tracks = self.tracks.rebuilt()
        if after != before:
            tracks = self._moved(tracks, before, after, self._strategy(reports, before, after), batch)
        wished, self._wishes = self._wishes, []
        for change in (*wished, *self._migrations(task.batch, reports, streams, events)):
            if change.query not in tracks.plans or change.site >= after.sites:
                continue
            if partitions_of(before, change.site) != partitions_of(after, change.site):
                message = f"{change.plan} at site {change.site} has to wait: partitions of the site move"
                events.append(AdaptEvent(task.batch, EventKind.PLAN_POSTPONED, message))
                if change in wished:  # the policy will propose again what it still wants
                    self._wishes.append(change)
                continue
            tracks = tracks.migrated(change, partitions_of(after, change.site), batch)
        watermarks = {s.name: s.watermark for s in streams}
        held = held_back(watermarks, self._oldest(self._waiting(blocks)))
        tracks, ended = tracks.without_ended(
            lambda track: self._is_over(self._compiler.plan_of(track), track, blocks, held)
        )
        events += track_events(task.batch, self.tracks, tracks, ended)
        self._adaptation.remember(events)
        return after, tracks, tuple(events)

    def _migrations(
        self,
        batch: int,
        reports: Sequence[SlotReport],
        streams: Sequence[StreamState],
        events: list[AdaptEvent],
    ) -> tuple[Migration, ...]:
        """What the plan policy wants to change; its reasons go to the events."""
        known = {s.name: s.max_ts for s in self.manifest.streams} if self.manifest else {}
        passed = [
            s.max_ts - t for s in streams if s.max_ts is not None and (t := known.get(s.name)) is not None
        ]
        sites = [site for r in reports for site in r.sites]
        proposed, reasons = self._plans.after(
            batch, self.tracks, sites, max(passed, default=0) / 1e6, self._adaptation.settings.migration
        )
        events += reasons
        return proposed

    def _strategy(self, reports: Sequence[SlotReport], before: PartitionMap, after: PartitionMap) -> Strategy:
        """How partitions change sites where plans differ."""
        busy = [0.0] * before.sites
        for site in (site for r in reports for site in r.sites):
            busy[site.site] = site.busy_s
        longest = max(busy) or 1.0
        shares = [seconds / longest for seconds in busy]
        settings = self._adaptation.settings
        copies = settings.isolation == "per_site"
        return self._plans.rebalancing(self.tracks, before, after, shares, settings.rebalance, copies=copies)

    def _stream_states(self, reports: Sequence[SlotReport]) -> tuple[StreamState, ...]:
        known = {s.name: s for s in self.manifest.streams} if self.manifest else {}
        return tuple(
            _advance(known.get(s.name, StreamState(s.name)), s, reports) for s in self._catalog.streams
        )

    def _publish_results(self, manifest: Manifest) -> None:
        staged = self._root / STAGED
        for query in self._catalog.queries:
            files = tuple(staged / f.name for f in manifest.results if f.query == query.name)
            self._sinks[query.name].publish(
                ResultBatch(query.name, manifest.batch, manifest.step, output_schema(query), files)
            )
        keep_dead_letters(self._root, manifest)


def _advance(state: StreamState, stream: Stream, reports: Sequence[SlotReport]) -> StreamState:
    seen = [r.streams[stream.name] for r in reports if stream.name in r.streams]
    times = [t for t in (state.max_ts, *(s.max_ts for s in seen)) if t is not None]
    max_ts = max(times, default=None)
    # A watermark never falls, not even when the lateness is raised at a restart.
    marks = [
        m for m in (state.watermark, None if max_ts is None else max_ts - stream.lateness_us) if m is not None
    ]
    return replace(
        state,
        max_ts=max_ts,
        watermark=max(marks, default=None),
        accepted=state.accepted + sum(s.accepted for s in seen),
        late=state.late + sum(s.late for s in seen),
        rejected=state.rejected + sum(s.rejected for s in seen),
    )
