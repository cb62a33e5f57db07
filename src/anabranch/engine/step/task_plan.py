"""What the slots of the next batch are told: live blocks, work of every site, merges, emissions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from anabranch.adapt.tracks.tracks import Tracks
from anabranch.engine.settings import Settings
from anabranch.engine.step.manifests.retention import live_blocks
from anabranch.engine.step.manifests.shipments import plan_shipments
from anabranch.engine.step.times.finality import emissions_of
from anabranch.engine.task.arrival.admission import Admission, oldest_waiting, waiting_blocks
from anabranch.engine.task.blocks.step_blocks import StepBlocks
from anabranch.engine.task.sites.memory_plan import MERGE_COPIES, owing_partitions
from anabranch.engine.task.sites.site_work import without_unread
from anabranch.engine.task.slot_task import SlotTask
from anabranch.engine.task.worker.constants import Compiled, ConstantsFile
from anabranch.exchange.aligned_router import AlignedTable
from anabranch.exchange.coordinated_router import Routes
from anabranch.exchange.partition_map import PartitionMap
from anabranch.exchange.split_router import HotKey
from anabranch.exchange.station_router import StationRouter
from anabranch.queries.catalog import Catalog
from anabranch.state import BlockMeta
from anabranch.state.block_lists import BlockList
from anabranch.state.compaction import plan_compaction
from anabranch.state.expiry import held_back
from anabranch.state.stamp import Stamp
from anabranch.state.storage import Storage


def plan_task(
    batch: int,
    *,
    storage: Storage,
    stamp: Stamp,
    constants: tuple[Compiled, ConstantsFile],
    roster: tuple[ConstantsFile, ...],
    catalog: Catalog,
    settings: Settings,
    partition_map: PartitionMap,
    tracks: Tracks,
    stored: Sequence[BlockMeta],
    lists: Sequence[BlockList],
    watermarks: Mapping[str, int | None],
    admission: Admission,
    look: int | None,
    aligned: Mapping[str, AlignedTable],
    coordinated: Mapping[str, Routes],
    hot: tuple[HotKey, ...],
    little: bool,
    now_s: float,
    router: StationRouter,
) -> SlotTask:
    """Describe a batch to its slots.

    Parameters
    ----------
    storage, stamp
        The checkpoint as tasks see it, and who writes to it.
    constants
        What the slots of all steps are told, and where it lies.
    roster
        Where members lie that have come and gone since.
    tracks
        Without plans that the constants have: `Tracks.beside`.
    stored, lists
        Blocks of the last manifest, and lists of them that workers can read.
    watermarks
        By stream, after the last batch.
    aligned
        By query with aligned routing, where its rows go.
    coordinated
        By query with coordinated routing, the paths of its units.
    hot
        Keys whose rows are spread.
    little
        Whether one slot is enough.
    """
    compiled, file = constants
    layout, failed, emitted = catalog.layout, catalog.failed(), catalog.emitted()
    work = compiled.work(tracks, partition_map, failed)
    waiting = waiting_blocks(layout, stored)
    held = held_back(watermarks, oldest_waiting(layout, waiting))
    blocks = without_unread(live_blocks(stored, work.kept, held, emitted), work.needed)
    left = {rows.source for rows in tracks.relaid} - work.stateful
    relaid = tuple(block for block in stored if block.state in left)
    owing = owing_partitions(work.windowed, blocks, admission.spilled)
    barriers = _barriers(tracks)
    shipments = plan_shipments(
        tracks.transfers, blocks, work.by_site, buckets=work.kept.buckets, barriers=barriers
    )
    leaving = {name for s in shipments for name in s.blocks}
    slots = 1 if little else min(settings.slots, partition_map.sites)
    drift = settings.max_drift_seconds
    return SlotTask(
        storage=storage,
        stamp=stamp,
        constants=file,
        roster=roster,
        batch=batch,
        slots=slots,
        gathers=little,
        partition_map=partition_map,
        tracks=tracks,
        failed=failed,
        watermarks=watermarks,
        latest=int((now_s + drift) * 1_000_000) if drift else (1 << 63) - 1,
        step_blocks=StepBlocks(
            storage,
            blocks + waiting + relaid,
            lists,
            _merges([b for b in blocks if b.name not in leaving], work.kept.buckets, settings, barriers),
        ),
        quota_pairs=settings.quota_pairs,
        work_memory=settings.work_memory_bytes,
        memory_budget=settings.memory_budget_bytes or None,
        admission=admission,
        look=look,
        emissions=emissions_of(work.windowed, held, emitted, catalog.ahead(), owing),
        shipments=shipments,
        router=router,
        aligned=aligned,
        coordinated=coordinated,
        hot=hot,
        looks_for_hot_keys=settings.hot_keys == "auto" and partition_map.sites > 1,
    )


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
