"""The batch loop: enter a batch, run it, commit it, publish it. Exactly once, whatever happens.

Free of Spark: `execute` runs the slots somewhere and returns their reports.

    blocks, staged results (fsynced) ─► manifest (put-if-absent) ─► results into the sinks ─► return
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from anabranch.adapt.boundary.boundary_state import BoundaryState
from anabranch.adapt.boundary.decider import AdaptiveDecider, Decider
from anabranch.adapt.boundary.decisions import Decisions
from anabranch.adapt.events import Event
from anabranch.adapt.tracks.tracks import Tracks
from anabranch.engine.boundary.observation import IsOver
from anabranch.engine.boundary.requests import Asked, Migrations, Requests
from anabranch.engine.live.changed_queries import rows_owed
from anabranch.engine.live.mailbox import Letter, letters, opened
from anabranch.engine.live.prepared import Prepared
from anabranch.engine.reports import SlotReport, charge_packing, check_reports
from anabranch.engine.settings import Settings
from anabranch.engine.sinks.sink import Sink
from anabranch.engine.step.batch_summary import BatchSummary as BatchSummary
from anabranch.engine.step.delivery import Delivery, delivered
from anabranch.engine.step.entry import check_entry
from anabranch.engine.step.hop_reports import critical_path_s, merged_hops
from anabranch.engine.step.manifests.step_outcome import StepOutcome
from anabranch.engine.step.slot_choice import is_little
from anabranch.engine.step.standing import Standing
from anabranch.engine.step.step_end import StepEnd, StepRun
from anabranch.engine.step.task_plan import plan_task
from anabranch.engine.step.times.finality import pending_rows, results_due, with_input_ended
from anabranch.engine.step.times.phase_times import PhaseTimes
from anabranch.engine.step.told_constants import ToldConstants
from anabranch.engine.task.arrival.wire import Wire
from anabranch.engine.task.results.staging import output_schema
from anabranch.engine.task.sites.site_work import is_over
from anabranch.engine.task.slot_task import SlotTask
from anabranch.errors import AnabranchError, StateError
from anabranch.exchange.partition_map import PartitionMap
from anabranch.plan.inputs import Layout
from anabranch.plan.logical import Query
from anabranch.queries.catalog import Catalog
from anabranch.queries.turnover import Change, Drop
from anabranch.state import NO_PARENT, Manifest, Stamp, Storage, StreamState, digest, publish, recover
from anabranch.state.fence import Fence
from anabranch.state.garbage import collect_garbage

COLLECT_EVERY = 8
"""Steps between two collections of garbage."""

Execute = Callable[[SlotTask], Sequence[SlotReport]]
ReadLetter = Callable[[Letter], tuple[Change, Sink | None]]
"""Makes a change, and the sink of a query that comes, of what somebody asks for."""


class BatchLoop:
    """Runs the batches of a session on a checkpoint.

    Parameters
    ----------
    storage, fence
        The checkpoint, and the right to write to it.
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
    decider
        Decides what changes between two steps.
    tables
        By static table, the version that the batch under way uses: whoever reads them keeps it up to date.
    """

    def __init__(
        self,
        *,
        storage: Storage,
        fence: Fence,
        catalog: Catalog,
        settings: Settings,
        sinks: Mapping[str, Sink],
        execute: Execute,
        cores: int = 1,
        clock: Callable[[], float] = time.time,
        is_over: IsOver = is_over,
        decider: Decider | None = None,
        tables: Mapping[str, Any] | None = None,
    ) -> None:
        self._storage = storage
        self._fence = fence
        self.delivery = Delivery(storage, sinks, settings, clock=clock)
        self._execute = execute
        self._cores = cores
        self._clock = clock
        self._began_s = clock()
        self.manifest = recover(storage)
        self._parent = digest(self.manifest) if self.manifest else NO_PARENT
        self._prepared = Prepared.of(catalog, is_over)
        self._constants = ToldConstants(storage)
        self._requests = Requests(settings)
        self._end = StepEnd(
            decider or AdaptiveDecider(),
            self._requests,
            is_over,
            {} if tables is None else tables,
            clock,
            started_s=self._began_s,
        )
        self._state, self._decisions = self._start()
        known = self.manifest.catalog.get("queries", {}) if self.manifest else {}
        self.delivery.open(catalog.answered, known)
        self._little = False
        """Whether the last batch was little work."""
        self._in_doubt = False
        """Whether a step was about to be published and not all sinks are known to have its results.

        A step that fails before can be repeated. If publishing fails, the manifest may be there all the same;
        if a sink fails, its results must come before those of the next step: a new start delivers again.
        """
        noted = delivered(storage)
        if self.manifest is not None and (not noted or self.manifest.parent in noted):
            # Spark repeats a batch that it does not know to be done: too late if a step without rows is next.
            self.delivery.deliver_again(self.manifest, digest=self._parent)

    def process(self, batch: int, *, offsets: str, source_id: str) -> BatchSummary:
        """Run batch `batch`, or finish publishing it when it has committed already."""
        check_entry(self.manifest, batch, offsets=offsets, source_id=source_id)
        if self.manifest is not None and self.manifest.batch == batch:
            self.delivery.deliver_again(self.manifest, digest=self._parent)
            return BatchSummary(self.manifest, (), {}, replayed=True, events=self.delivery.news())
        return self._run(batch, 0, offsets=offsets, source_id=source_id, streams=self._streams)

    @property
    def catalog(self) -> Catalog:
        """The streams and queries as of the last step."""
        return self._prepared.catalog

    @property
    def layout(self) -> Layout:
        return self._prepared.catalog.layout

    @property
    def wire(self) -> Wire:
        return self._prepared.wire

    @property
    def failures(self) -> dict[str, str]:
        """Why queries were ended, in this session or an earlier one, by name."""
        return self.catalog.failures()

    @property
    def rows_wait(self) -> bool:
        """Whether rows were put off to a later batch, partitions on disk owe results, or results are due."""
        return (
            self._input_waits
            or bool(self.catalog.ahead().keys() - self.catalog.failed())
            or (self.manifest is not None and results_due(self.manifest, self.catalog.running_plans()))
        )

    @property
    def changes_wait(self) -> bool:
        """Whether queries are to come or go at the next boundary, which a step can make."""
        asked = self._requests.changes or self._requests.refused or letters(self._storage)
        return self.manifest is not None and bool(asked)

    @property
    def owes_rows(self) -> bool:
        """Whether rows wait for a query that is to go: steps let them in before the next batch."""
        blocks = self.manifest.blocks if self.manifest else ()
        return rows_owed(self._requests.changes, self.catalog, blocks)

    def read_mail(self, read: ReadLetter) -> None:
        """Take up what other processes ask for; the next step carries it out, or says why not."""
        done = {name for name, _ in self.manifest.mail} if self.manifest else set()
        for name in letters(self._storage):
            if name in done or self._requests.knows(name):
                continue
            try:
                self.ask(*read(opened(self._storage, name)), letter=name)
            except (AnabranchError, OSError) as error:
                self._requests.refuse(name, str(error))

    @property
    def _streams(self) -> tuple[StreamState, ...]:
        return self.manifest.streams if self.manifest else ()

    @property
    def _input_waits(self) -> bool:
        return self.manifest is not None and any(b.state.is_waiting for b in self.manifest.blocks)

    @property
    def _standing(self) -> Standing:
        return Standing(
            self.manifest, self._parent, self._prepared, self._state, self._decisions, self._began_s
        )

    @property
    def partition_map(self) -> PartitionMap:
        """Who works where in the next step."""
        return self._decisions.partition_map

    @property
    def tracks(self) -> Tracks:
        """Plans of the sites in the next step."""
        return self._decisions.tracks

    def step(self) -> BatchSummary:
        """Take a further step of the last batch, without new rows."""
        assert self.manifest is not None, "there is no batch yet"
        return self._step(self.manifest)

    def _step(self, at: Manifest) -> BatchSummary:
        return self._run(
            at.batch, at.step + 1, offsets=at.offsets, source_id=at.source_id, streams=at.streams
        )

    def drain(self) -> Iterator[BatchSummary]:
        """Let all rows that wait enter, and emit what the last batch has made final, step by step."""
        while self.rows_wait:
            yield self.step()

    def end_of_input(self) -> Iterator[BatchSummary]:
        """Declare that nothing at or before the newest times will come any more.

        Steps of the last batch, without new rows: what still waits enters, and then every row is final.
        """
        plans = self.catalog.running_plans()
        while self.manifest is not None and pending_rows(self.manifest, plans):
            at = self.manifest
            yield self._step(at if self._input_waits else with_input_ended(at, plans))
            plans = self.catalog.running_plans()

    def _run(
        self, batch: int, step: int, *, offsets: str, source_id: str, streams: Sequence[StreamState]
    ) -> BatchSummary:
        if self._in_doubt:
            raise StateError("a step of this session has failed: stop it and start again from its checkpoint")
        phases = PhaseTimes()
        began_s = self._clock()
        known = {s.name: s for s in streams}
        task = self._task(batch, began_s, streams, step=step)
        phases.mark("plan")
        told = tuple(self._execute(task))
        check_reports(told, task.stamp)
        charge_packing(told)
        reports = merged_hops(told)
        phases.mark("execute")
        wall_s = sum(phases.seconds.values())
        ran = StepRun(task, reports, known, began_s, wall_s, offsets, source_id)
        outcome = self._end.outcome(self._standing, ran)
        self._fence.check()
        self._in_doubt = True
        self._parent = publish(self._storage, outcome.manifest)
        self._adopt(outcome, began_s)
        if not step:
            self._little = is_little(told, most_rows=self._requests.settings.little_rows)
        phases.mark("commit")
        self._deliver(outcome.manifest)
        if outcome.manifest.number % COLLECT_EVERY == 0:
            collect_garbage(self._storage, keep=self._requests.settings.keep_manifests)
            self._constants.forget_others((task.constants, *task.roster))
        phases.mark("publish")
        self._in_doubt = False
        return BatchSummary(
            outcome.manifest,
            reports,
            phases.seconds,
            events=(*outcome.events, *self.delivery.news()),
            undelivered=self.delivery.undelivered(),
            critical_path_s=critical_path_s(told),
            eddies=outcome.decisions.eddies,
            spread=outcome.decisions.spread,
            orderings=outcome.decisions.weighed,
            homes=outcome.state.homes,
        )

    def _deliver(self, manifest: Manifest) -> None:
        """Give the sinks what was committed; those that fail wait, or end their queries alone."""
        self.delivery.deliver(manifest, digest=self._parent)
        self._end_queries()

    def try_sinks(self, *, now: bool = False) -> tuple[Event, ...]:
        """Give sinks what they have not taken, without a step; `now`, whether their pause is over or not."""
        self.delivery.try_again(now=now)
        self._end_queries()
        return self.delivery.news()

    def _end_queries(self) -> None:
        known = self.failures
        if ended := {name: why for name, why in self.delivery.queries_ended().items() if name not in known}:
            self._prepared = self._prepared.with_catalog(self.catalog.with_failures(ended))

    def _adopt(self, outcome: StepOutcome, began_s: float) -> None:
        """Go on from a step that is published."""
        self.manifest, self._began_s = outcome.manifest, began_s
        if outcome.prepared.compiled is not self._prepared.compiled:
            self._constants.begin_anew()
        after = outcome.prepared.catalog
        if after.queries is not self.catalog.queries:
            new = {a.change.name: a.sink for a in outcome.changes if a.sink is not None}
            self.delivery.change(after.answered, new)
        self._prepared = outcome.prepared
        self._state, self._decisions = outcome.state, outcome.decisions
        self._requests.carried_out(
            outcome.requests,
            outcome.changes,
            outcome.manifest.mail,
            postponed=outcome.decisions.postponed,
        )

    def _start(self) -> tuple[BoundaryState, Decisions]:
        """What the checkpoint remembers, for the sites, queries and settings there are now."""
        at = self.manifest
        observed = self._prepared.observation.at_start(at, self._requests.settings)
        remembered = BoundaryState.from_json(at.controller if at else {}, self._prepared.observation.joins)
        return self._end.decider.start(remembered, observed)

    def change(self, **settings: Any) -> None:
        """Change settings from the next boundary on: `sites`, `memory_budget_mb` and the like."""
        self._requests.change(settings, cores=self._cores)
        self.delivery.obey(self._requests.settings)

    def ask(self, change: Change, sink: Sink | None = None, *, letter: str | None = None) -> None:
        """Let a query come, go or change at the next boundary.

        Parameters
        ----------
        sink
            Of a query that comes; it is opened at once, so that one that cannot be used is refused.
        letter
            Name of the letter that asks for it.
        """
        if not isinstance(change, Drop):
            change = replace(change, query=self._placed(change.query, sink))
            if sink is not None and change.query.place not in self.delivery.sinks:
                sink.open(change.query.owner, output_schema(change.query))
        self._requests.ask(Asked(change, sink, letter), self.catalog)
        if sink is not None and not isinstance(change, Drop):
            self.delivery.expect(change.query, sink)

    def _placed(self, query: Query, sink: Sink | None) -> Query:
        """A query that comes, or changes, with the place that it shares with others."""
        if sink is not None:
            return self.delivery.placed(query, sink)
        known = self._requests.coming(query.name) or self.catalog.answered_by(query.name)
        return replace(query, place=None if known is None else known.place)

    def migrate(
        self,
        query: str,
        plan: str,
        site: int | None = None,
        strategy: str = "moving_state",
        *,
        force: bool = False,
    ) -> None:
        """Let one site, or all, change to another plan at the next boundary."""
        settings = self._requests.settings
        sites = range(settings.sites) if site is None else (site,)
        migrations = Migrations(query, plan, tuple(sites), strategy).checked(
            self.tracks,
            self._prepared.observation.joins,
            sites=settings.sites,
            plans=self._state.plans,
            blocks=self.manifest.blocks if self.manifest else (),
            room=None if force else settings.work_memory_bytes,
        )
        self._requests.migrate(migrations)

    def _task(
        self, batch: int, now_s: float, streams: Sequence[StreamState] | None = None, *, step: int = 0
    ) -> SlotTask:
        known = {s.name: s.watermark for s in (self._streams if streams is None else streams)}
        stamp = Stamp(self._fence.epoch, batch, step)
        constants, roster = self._constants.of(self._prepared, stamp)
        return plan_task(
            batch,
            storage=self._storage,
            stamp=stamp,
            standing=self._standing,
            constants=constants,
            roster=roster,
            settings=self._requests.settings,
            watermarks={s.name: known.get(s.name) for s in self.catalog.streams},
            little=self._little,
            now_s=now_s,
        )
