"""What a step leads to; nothing of it holds before its manifest is published."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from anabranch.adapt.boundary.boundary_state import BoundaryState
from anabranch.adapt.boundary.decisions import Decisions
from anabranch.adapt.events import Event
from anabranch.adapt.tracks.tracks import Migration
from anabranch.engine.boundary.requests import Asked
from anabranch.engine.live.prepared import Prepared
from anabranch.engine.reports import SlotReport
from anabranch.engine.step.manifests.shipments import without_shipped
from anabranch.engine.step.query_costs import over_cpu_quota
from anabranch.engine.task.slot_task import SlotTask
from anabranch.plan.states.state_id import StateId
from anabranch.queries.catalog import Catalog
from anabranch.state import BlockMeta, Manifest, StreamState


@dataclass(frozen=True, slots=True)
class StepOutcome:
    """A step that has run, and all that holds once its manifest is published. Until then none of it does."""

    manifest: Manifest
    prepared: Prepared
    state: BoundaryState
    decisions: Decisions
    requests: tuple[Migration, ...]
    """Those that were decided on."""
    changes: tuple[Asked, ...]
    """Queries that came and went."""
    events: tuple[Event, ...]


def catalog_after(
    catalog: Catalog, task: SlotTask, reports: Sequence[SlotReport], *, quota_cpu_ms: int = 0
) -> Catalog:
    """The catalog with what queries have emitted, and why some of them were ended."""
    # Of a group without results nobody knows whose the time was.
    over = over_cpu_quota(reports, quota_cpu_ms)
    failures = {name: why for name, why in over.items() if name not in catalog.groups}
    failures |= {query: message for r in reports for query, message in r.failures.items()}
    waiting = Counter[str]()
    for site in (site for r in reports for site in r.sites):
        waiting.update(site.waiting)
    return catalog.with_failures(failures).with_emitted(task.emissions, waiting)


def blocks_after(task: SlotTask, reports: Sequence[SlotReport]) -> tuple[BlockMeta, ...]:
    """Blocks that a step has left. Waiting rows have entered, or wait again in blocks of this step."""
    merged = {name for group in task.merges for name in group}
    before = without_shipped(task.blocks, task.shipments)
    return (
        *(b for b in before if b.name not in merged and not b.state.is_waiting),
        *(b for r in reports for b in r.blocks),
    )


def renamed(blocks: tuple[BlockMeta, ...], names: Mapping[str, StateId]) -> tuple[BlockMeta, ...]:
    """Blocks with the states that they belong to from now on."""
    return tuple(replace(b, state=names[b.state]) if b.state in names else b for b in blocks)


def elapsed_s(known: Mapping[str, StreamState], streams: Sequence[StreamState]) -> float:
    """Event time that passed in a step."""
    passed = [
        s.max_ts - t
        for s in streams
        if s.max_ts is not None and s.name in known and (t := known[s.name].max_ts) is not None
    ]
    return max(passed, default=0) / 1e6
