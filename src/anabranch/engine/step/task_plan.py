"""What the slots of the next batch are told: live blocks, work of every site, merges, emissions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from anabranch.adapt.tracks.tracks import Tracks
from anabranch.engine.settings import Settings
from anabranch.engine.step.manifests.retention import live_blocks
from anabranch.engine.step.manifests.shipments import Shipment, plan_shipments
from anabranch.engine.step.standing import Standing
from anabranch.engine.step.times.finality import emissions_of
from anabranch.engine.task.arrival.admission import oldest_waiting, waiting_blocks
from anabranch.engine.task.blocks.step_blocks import StepBlocks
from anabranch.engine.task.home_parts import homes_of
from anabranch.engine.task.sites.memory_plan import MERGE_COPIES, owing_partitions
from anabranch.engine.task.sites.site_work import without_unread
from anabranch.engine.task.sites.step_work import StepWork
from anabranch.engine.task.slot_task import SlotTask
from anabranch.engine.task.worker.constants import ConstantsFile
from anabranch.operators.group.final_rows import Emission
from anabranch.state import BlockMeta
from anabranch.state.compaction import plan_compaction
from anabranch.state.expiry import held_back
from anabranch.state.stamp import Stamp
from anabranch.state.storage import Storage


@dataclass(frozen=True, slots=True)
class _OldRows:
    """What earlier steps have left, and what becomes of it."""

    live: tuple[BlockMeta, ...]
    """Blocks that the work of this step needs."""
    beside: tuple[BlockMeta, ...]
    """Blocks of rows that wait."""
    relaid: tuple[BlockMeta, ...]
    """Blocks of rows that are laid out anew, whole: those who go on with them may need less."""
    emissions: Mapping[str, Emission]
    """By query that emits rows once they are final: which are, in this step."""
    shipments: tuple[Shipment, ...]
    merges: tuple[tuple[str, ...], ...]


def plan_task(
    batch: int,
    *,
    storage: Storage,
    stamp: Stamp,
    standing: Standing,
    constants: ConstantsFile,
    roster: tuple[ConstantsFile, ...],
    settings: Settings,
    watermarks: Mapping[str, int | None],
    little: bool,
    now_s: float,
) -> SlotTask:
    """Describe a batch to its slots.

    Parameters
    ----------
    constants, roster
        Where workers find what was told before, and who has come and gone since.
    watermarks
        By stream, after the last batch.
    little
        Whether one slot is enough.
    """
    catalog, state, decided = standing.catalog, standing.state, standing.decisions
    tracks, sites = standing.untold(decided.tracks), decided.partition_map.sites
    work = standing.prepared.compiled.work(tracks, decided.partition_map, catalog.failed())
    old = _old_rows(standing, tracks, work, settings, watermarks)
    slots = 1 if little else min(settings.slots, sites)
    return SlotTask(
        storage=storage,
        stamp=stamp,
        constants=constants,
        roster=roster,
        batch=batch,
        slots=slots,
        homes=_homes(standing, tracks, old, settings) if slots > 1 else b"",
        gathers=little,
        partition_map=decided.partition_map,
        tracks=tracks,
        failed=catalog.failed(),
        watermarks=watermarks,
        latest=_latest(now_s, settings.max_drift_seconds),
        step_blocks=StepBlocks(storage, old.live + old.beside, standing.lists, old.merges),
        quota_pairs=settings.quota_pairs,
        work_memory=settings.work_memory_bytes,
        memory_budget=settings.memory_budget_bytes or None,
        admission=decided.admission,
        look=state.plans.look(batch),
        emissions=old.emissions,
        shipments=old.shipments,
        relaid=old.relaid,
        router=decided.router,
        aligned=state.routing.tables(),
        coordinated=state.routing.routes(batch),
        hot=state.hot.keys,
        looks_for_hot_keys=settings.hot_keys == "auto" and sites > 1,
    )


def _homes(standing: Standing, tracks: Tracks, old: _OldRows, settings: Settings) -> bytes:
    """Who works at one site alone in this step: nobody while rows wait or states move."""
    state, decided = standing.state, standing.decisions
    plain = decided.admission.is_open and not (
        old.beside or old.relaid or old.shipments or settings.memory_budget_bytes
    )
    if not state.homes.site or not plain or settings.isolation == "per_site":
        return b""
    busy = {*tracks.plans, *(t.query for t in tracks.ending), *(r.query for r in tracks.rebuilds)}
    spread = {s for key in state.hot.keys for s in key.states}
    layout = standing.catalog.layout
    for routed in layout.queries if spread else ():
        if any(layout.inputs[i].state in spread for i in routed.inputs):
            busy.add(routed.query.name)
    units = standing.prepared.observation.units
    apart = {q for unit in units if not busy.isdisjoint(unit) for q in unit} if busy else set()
    return homes_of(layout, {q: at for q, at in state.homes.site.items() if q not in apart})


def _old_rows(
    standing: Standing,
    tracks: Tracks,
    work: StepWork,
    settings: Settings,
    watermarks: Mapping[str, int | None],
) -> _OldRows:
    catalog, stored = standing.catalog, standing.blocks
    layout, emitted = catalog.layout, catalog.emitted()
    waiting = waiting_blocks(layout, stored)
    held = held_back(watermarks, oldest_waiting(layout, waiting))
    blocks = without_unread(live_blocks(stored, work.kept, held, emitted), work.needed)
    sources = {rows.source for rows in tracks.relaid}
    relaid = tuple(block for block in stored if block.state in sources)
    barriers = _barriers(tracks)
    shipments = plan_shipments(
        tracks.transfers, blocks, work.by_site, buckets=work.kept.buckets, barriers=barriers
    )
    leaving = {name for s in shipments for name in s.blocks}
    staying = [b for b in blocks if b.name not in leaving]
    merges = _merges(staying, work.kept.buckets, settings, barriers)
    owing = owing_partitions(work.windowed, blocks, standing.decisions.admission.spilled)
    emissions = emissions_of(work.windowed, held, emitted, catalog.ahead(), owing)
    return _OldRows(blocks, waiting, relaid, emissions, shipments, merges)


def _latest(now_s: float, drift_s: float) -> int:
    """Rows after this time are too far ahead; any may be where no drift is given."""
    return int((now_s + drift_s) * 1_000_000) if drift_s else (1 << 63) - 1


def _merges(
    blocks: Sequence[BlockMeta],
    buckets: Mapping[str, int | None],
    settings: Settings,
    barriers: Sequence[int],
) -> tuple[tuple[str, ...], ...]:
    count = Counter((block.state, block.slot) for block in blocks)
    many = {state for (state, _), n in count.items() if n > settings.max_blocks}
    by_state: dict[str, list[BlockMeta]] = {}
    for block in blocks if many else ():
        if block.state in many:
            by_state.setdefault(block.state, []).append(block)
    merges: list[tuple[str, ...]] = []
    room = settings.work_memory_bytes
    # Under a memory budget mergers are written in pieces.
    most_bytes = None if room is None or settings.memory_budget_bytes else room // MERGE_COPIES
    for state, its in by_state.items():
        if state in buckets:
            merges += plan_compaction(
                its,
                bucket_us=buckets[state],
                max_blocks=settings.max_blocks,
                barriers=barriers,
                separate_slots=True,
                most_bytes=most_bytes,
            )
    return tuple(merges)


def _barriers(tracks: Tracks) -> list[int]:
    """Batches at which tracks began while older ones still work: rows from before stay apart."""
    return sorted({t.until for t in tracks.ending if t.until is not None})
