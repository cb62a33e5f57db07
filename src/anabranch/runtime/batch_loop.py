"""The batch loop: enter a batch, run it, commit it, publish it. Exactly once, whatever happens.

Free of Spark: `execute` runs the slots somewhere and returns their reports.

    blocks, staged results (fsynced) ─► manifest (put-if-absent) ─► results into the sinks ─► return
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from anabranch.adapt.events import AdaptEvent
from anabranch.adapt.tracks import Tracks
from anabranch.errors import ConfigError, StateError
from anabranch.exchange.partition_map import PartitionMap
from anabranch.plan.local_plan import LeafNode
from anabranch.plan.migration_cost import Strategy
from anabranch.runtime.admission import is_waiting
from anabranch.runtime.catalog import Catalog
from anabranch.runtime.delivery import last_delivered, note_delivered
from anabranch.runtime.event_log import log_events
from anabranch.runtime.finality import pending_rows, with_input_ended
from anabranch.runtime.laps import Laps
from anabranch.runtime.reports import SlotReport, charge_packing
from anabranch.runtime.settings import Settings
from anabranch.runtime.shipments import without_shipped
from anabranch.runtime.sinks import ResultBatch, Sink
from anabranch.runtime.site_work import TrackCompiler, is_over
from anabranch.runtime.slot_task import SlotTask
from anabranch.runtime.staging import keep_dead_letters, output_schema, verify_staged
from anabranch.runtime.steering import IsOver, Steering
from anabranch.runtime.task_plan import plan_task
from anabranch.runtime.watermarks import advance, idle_events, unit_events
from anabranch.runtime.wire import Wire, wire_of
from anabranch.state import NO_PARENT, Manifest, Storage, StreamState, digest, publish, recover
from anabranch.state.fence import Fence
from anabranch.state.garbage import collect_garbage
from anabranch.state.layout import STAGED

COLLECT_EVERY = 8
"""Steps between two collections of garbage."""

Execute = Callable[[SlotTask], Sequence[SlotReport]]


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
    cores
        What `slots = 0` stands for when it is set while the session runs.
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
        cores: int = 1,
        clock: Callable[[], float] = time.time,
        is_over: IsOver = is_over,
    ) -> None:
        self._storage = storage
        self._fence = fence
        self._root = root
        self._catalog = catalog
        self._sinks = sinks
        self._execute = execute
        self._cores = cores
        self._clock = clock
        self._started_s = self._began_s = clock()
        self.manifest = recover(storage)
        self._parent = digest(self.manifest) if self.manifest else NO_PARENT
        self.layout = catalog.layout
        self._compiler = TrackCompiler(self.layout, catalog.plans)
        remembered = self.manifest.controller if self.manifest else {}
        self._steering = Steering(settings, catalog, self._compiler, is_over, remembered)
        self.partition_map, self.tracks = self._starting_point()
        if self.manifest is not None:
            # The memory budget or the sites may be others than those that the manifest was written under.
            self._steering.plan_memory(self.manifest.batch, self.partition_map, self.manifest.blocks)
        self.wire: Wire = wire_of(self.layout.inputs)
        for query in catalog.queries:
            sinks[query.name].open(query.name, output_schema(query))
        self._in_doubt = False
        """Whether a step has begun and not come to its end."""
        if self.manifest is not None and last_delivered(root) in (None, self.manifest.parent):
            # Spark repeats a batch that it does not know to be done. That is too late where a step without
            # new rows comes first, and it knows nothing of such steps.
            self._deliver_again(self.manifest)

    def process(self, batch: int, *, offsets: str, source_id: str) -> BatchSummary:
        """Run batch `batch`, or finish publishing it when it has committed already."""
        self._check_entry(batch, offsets, source_id)
        if self.manifest is not None and self.manifest.batch == batch:
            self._deliver_again(self.manifest)
            return BatchSummary(self.manifest, (), {}, replayed=True)
        return self._run(batch, 0, offsets=offsets, source_id=source_id)

    @property
    def failures(self) -> dict[str, str]:
        """Why queries were ended, in this session or an earlier one, by name."""
        return self._catalog.failures()

    @property
    def rows_wait(self) -> bool:
        """Whether rows were put off to a later batch, or partitions on disk owe results."""
        return self._input_waits or bool(self._catalog.ahead().keys() - self._catalog.failed())

    @property
    def _input_waits(self) -> bool:
        return self.manifest is not None and any(is_waiting(b.state) for b in self.manifest.blocks)

    def step(self) -> BatchSummary:
        """Take a further step of the last batch, without new rows."""
        assert self.manifest is not None, "there is no batch yet"
        at = self.manifest
        return self._run(at.batch, at.step + 1, offsets=at.offsets, source_id=at.source_id)

    def drain(self) -> Iterator[BatchSummary]:
        """Let all rows that wait enter, and all partitions answer for what is final, step by step."""
        while self.rows_wait:
            yield self.step()

    def end_of_input(self) -> Iterator[BatchSummary]:
        """Declare that nothing at or before the newest times will come any more.

        Steps of the last batch, without new rows: what still waits enters, and then every row is final.
        """
        plans = self._catalog.running_plans()
        while self.manifest is not None and pending_rows(self.manifest, plans):
            if not self._input_waits:
                self.manifest = with_input_ended(self.manifest, plans)
            yield self.step()
            plans = self._catalog.running_plans()

    def _run(self, batch: int, step: int, *, offsets: str, source_id: str) -> BatchSummary:
        if self._in_doubt:
            raise StateError("a step of this session has failed: stop it and start again from its checkpoint")
        self._in_doubt = True
        laps = Laps()
        began_s = self._clock()
        task = self._task(batch, began_s)
        laps.mark("plan")
        reports = tuple(self._execute(task))
        charge_packing(reports)
        laps.mark("execute")
        manifest, events = self._next_manifest(
            task, reports, began_s, offsets=offsets, source_id=source_id, step=step
        )
        self._fence.check()
        self._parent = publish(self._storage, manifest)
        self.manifest, self._began_s = manifest, began_s
        self.partition_map = PartitionMap(manifest.partition_map, manifest.sites)
        self.tracks = Tracks.from_json(manifest.tracks)
        laps.mark("commit")
        self._deliver(manifest)
        if manifest.number % COLLECT_EVERY == 0:
            collect_garbage(self._storage, keep=self._steering.settings.keep_manifests)
        log_events(self._root, events)
        laps.mark("publish")
        self._in_doubt = False
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
        sites = self._steering.settings.sites
        joins = [p for p in self._catalog.plans if not isinstance(p.root, LeafNode)]
        defaults = {p.query.name: str(p.plan) for p in joins}
        if self.manifest is None:
            return PartitionMap.even(sites), Tracks({}).for_queries(defaults, sites)
        known = PartitionMap(self.manifest.partition_map, self.manifest.sites)
        tracks = Tracks.from_json(self.manifest.tracks).for_queries(defaults, known.sites)
        wanted = known if known.sites == sites else known.rescaled(sites)
        batch = self.manifest.batch + 1
        return wanted, self._steering.moved(tracks, known, wanted, Strategy.MOVING_STATE, batch)

    def change(self, **settings: Any) -> None:
        """Change settings from the next boundary on: `sites`, `memory_budget_mb` and the like."""
        values = [(name, str(value)) for name, value in settings.items()]
        changed = self._steering.settings.with_values(values).resolved(self._cores)
        if changed.end_of_input != self._steering.settings.end_of_input:
            raise ConfigError(
                "end_of_input cannot change while the session runs: give it at the start, as "
                "session.start(endOfInput=True, availableNow=True)"
            )
        self._steering.settings = changed

    def migrate(self, query: str, plan: str, site: int | None = None, strategy: str = "moving_state") -> None:
        """Let one site, or all, change to another plan at the next boundary."""
        sites = range(self._steering.settings.sites) if site is None else (site,)
        self._steering.wish(query, plan, sites, strategy, self.tracks)

    def _task(self, batch: int, now_s: float) -> SlotTask:
        return plan_task(
            batch,
            root=self._root,
            catalog=self._catalog,
            wire=self.wire,
            settings=self._steering.settings,
            partition_map=self.partition_map,
            tracks=self.tracks,
            work=self._compiler.work(self.tracks, self.partition_map, self._catalog.failed()),
            stored=self.manifest.blocks if self.manifest else (),
            watermarks=self._watermarks(),
            admission=self._steering.admission(),
            look=self._steering.look(batch),
            now_s=now_s,
        )

    def _watermarks(self) -> dict[str, int | None]:
        known = {s.name: s.watermark for s in self.manifest.streams} if self.manifest else {}
        return {s.name: known.get(s.name) for s in self._catalog.streams}

    def _next_manifest(
        self,
        task: SlotTask,
        reports: Sequence[SlotReport],
        began_s: float,
        *,
        offsets: str,
        source_id: str,
        step: int,
    ) -> tuple[Manifest, tuple[AdaptEvent, ...]]:
        merged = {name for group in task.merges for name in group}
        failures = {query: message for r in reports for query, message in r.failures.items()}
        self._catalog = self._catalog.with_failures(failures).with_emitted(task.emissions)
        blocks = (
            # Waiting rows have entered, or wait again in blocks of this batch.
            *(
                b
                for b in without_shipped(task.blocks, task.shipments)
                if b.name not in merged and not is_waiting(b.state)
            ),
            *(b for r in reports for b in r.blocks),
        )
        timeout = self._steering.settings.idle_timeout_seconds
        known = {s.name: s for s in self.manifest.streams} if self.manifest else {}
        streams = advance(
            known,
            self._catalog.streams,
            reports,
            now_s=began_s,  # what arrives while a batch runs is read by the next one
            started_s=self._started_s,
            idle_timeout_s=timeout,
        )
        next_map, tracks, blocks, events = self._steering.after(
            task.batch,
            task.partition_map,
            self.tracks,
            reports,
            streams=streams,
            elapsed_s=self._elapsed_s(streams),
            blocks=blocks,
        )
        manifest = Manifest(
            batch=task.batch,
            step=step,
            number=self.manifest.number + 1 if self.manifest else 0,
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
            controller=self._steering.to_json(),
        )
        silent = idle_events(
            task.batch, streams, before_s=self._began_s, now_s=began_s, idle_timeout_s=timeout
        )
        return manifest, (*events, *silent, *unit_events(task.batch, known, streams))

    def _elapsed_s(self, streams: Sequence[StreamState]) -> float:
        """Event time that passed in a batch."""
        known = {s.name: s.max_ts for s in self.manifest.streams} if self.manifest else {}
        passed = [
            s.max_ts - t for s in streams if s.max_ts is not None and (t := known.get(s.name)) is not None
        ]
        return max(passed, default=0) / 1e6

    def _deliver_again(self, manifest: Manifest) -> None:
        """Give the sinks what a process committed that is gone, unless it has said that they have it."""
        if last_delivered(self._root) != self._parent:
            # Whatever happened to the files since, they are what was staged or are not published.
            verify_staged(self._root, manifest)
            self._deliver(manifest)

    def _deliver(self, manifest: Manifest) -> None:
        """Give the sinks the results of the newest step."""
        files: dict[str, list[Path]] = {}
        for file in manifest.results:
            files.setdefault(file.query, []).append(self._root / STAGED / file.name)
        for query in self._catalog.queries:
            mine = tuple(files.get(query.name, ()))
            self._sinks[query.name].publish(
                ResultBatch(
                    query.name, manifest.batch, manifest.step, manifest.number, output_schema(query), mine
                )
            )
        keep_dead_letters(self._root, manifest)
        note_delivered(self._root, self._parent)
