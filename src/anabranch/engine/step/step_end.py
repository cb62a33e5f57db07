"""The end of a step: its reports, what is decided upon them, and the manifest that says so."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from anabranch.adapt.boundary.decider import Decider
from anabranch.adapt.boundary.observed import Observed
from anabranch.engine.boundary.observation import IsOver
from anabranch.engine.boundary.requests import Requests
from anabranch.engine.live.changed_queries import with_changes
from anabranch.engine.live.orderings import with_orderings
from anabranch.engine.live.regrouping import group_measures, with_groups
from anabranch.engine.reports import SlotReport
from anabranch.engine.step.manifests.step_manifest import step_manifest
from anabranch.engine.step.manifests.step_outcome import StepOutcome, blocks_after, catalog_after, elapsed_s
from anabranch.engine.step.standing import Standing
from anabranch.engine.step.times.late_rows import late_events
from anabranch.engine.step.times.watermarks import advance, idle_events, unit_events
from anabranch.engine.task.slot_task import SlotTask
from anabranch.state import StreamState


@dataclass(frozen=True, slots=True)
class StepRun:
    """A step whose slots have done their work.

    Attributes
    ----------
    known
        The streams as the step found them.
    began_s, wall_s
        When it began, and the seconds that it took.
    offsets, source_id
        The position of the sources.
    """

    task: SlotTask
    reports: Sequence[SlotReport]
    known: Mapping[str, StreamState]
    began_s: float
    wall_s: float
    offsets: str
    source_id: str


@dataclass(frozen=True, slots=True)
class StepEnd:
    """Tells what the steps of a session lead to.

    Attributes
    ----------
    decider, is_over, clock, tables
        As the batch loop has them.
    requests
        What users ask for.
    started_s
        When the session began.
    """

    decider: Decider
    requests: Requests
    is_over: IsOver
    tables: Mapping[str, Any]
    clock: Callable[[], float]
    started_s: float

    def outcome(self, standing: Standing, ran: StepRun) -> StepOutcome:
        """What a step leads to that started from `standing`."""
        task, reports, settings = ran.task, ran.reports, self.requests.settings
        blocks = blocks_after(task, reports)
        catalog = catalog_after(standing.catalog, task, reports, quota_cpu_ms=settings.quota_cpu_ms)
        timeout = settings.idle_timeout_seconds
        streams = advance(
            ran.known,
            catalog.streams,
            reports,
            now_s=ran.began_s,  # what arrives while a batch runs is read by the next one
            started_s=self.started_s,
            idle_timeout_s=timeout,
        )
        observed = standing.prepared.observation.of(
            task.batch,
            task.stamp.step,
            settings=settings,
            ran=(task.partition_map, standing.decisions.tracks),
            left=(blocks, streams),
            reports=reports,
            requests=self.requests.migrations,
            seconds=(elapsed_s(ran.known, streams), ran.wall_s),
            ended=catalog.failed(),
            slots=task.slots,
            groups=group_measures(catalog, reports),
        )
        state, decisions = self.decider.decide(standing.state, observed)
        manifest = step_manifest(
            task,
            reports,
            before=standing.manifest,
            parent=standing.parent,
            offsets=ran.offsets,
            source_id=ran.source_id,
            committed_at=self.clock(),
            left=(blocks, streams),
            catalog=catalog,
            tables=self.tables,
            state=state,
            decisions=decisions,
            tracks=standing.untold(decisions.tracks),
        )
        silent = idle_events(
            task.batch, streams, before_s=standing.began_s, now_s=ran.began_s, idle_timeout_s=timeout
        )
        late = late_events(task.batch, ran.known, streams, catalog.streams)
        events = (*decisions.events, *silent, *unit_events(task.batch, ran.known, streams), *late)
        prepared = standing.prepared.with_catalog(catalog)
        outcome = StepOutcome(manifest, prepared, state, decisions, observed.requests, (), events)
        return self._with_other_queries(outcome, observed)

    def _with_other_queries(self, outcome: StepOutcome, observed: Observed) -> StepOutcome:
        """A step after which queries come and go, groups are dissolved, and joins run in another way."""
        asked = self.requests
        outcome = with_changes(outcome, asked.changes, self.is_over, refused=asked.refused)
        outcome = with_groups(outcome, observed, self.is_over)
        trees = outcome.decisions.trees
        outcome, first = with_orderings(outcome, self._orderings(outcome), trees, self.is_over)
        asked.migrate(first)
        return outcome

    def _orderings(self, outcome: StepOutcome) -> Mapping[str, bool]:
        """By join that can run either way, whether it is to run at stations."""
        ordering = self.requests.settings.ordering
        if ordering == "auto":
            return outcome.decisions.orderings
        return dict.fromkeys(outcome.prepared.observation.either_way, ordering == "eddy")
