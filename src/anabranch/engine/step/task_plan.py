"""What the slots of the next batch are told: live blocks, work of every site, merges, emissions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from anabranch.adapt.tracks.tracks import Tracks
from anabranch.engine.event_time import NEVER_LATE
from anabranch.engine.settings import Settings
from anabranch.engine.step.finality import emissions_of, trims_of
from anabranch.engine.step.retention import bucket_lengths, live_blocks, states_of
from anabranch.engine.step.shipments import plan_shipments
from anabranch.engine.task.admission import Admission, oldest_waiting, waiting_blocks
from anabranch.engine.task.memory_plan import MERGE_COPIES, memory_plan, owing_partitions
from anabranch.engine.task.site_work import TrackWork, all_plans, without_strangers
from anabranch.engine.task.slot_task import SlotTask
from anabranch.engine.task.wire import Wire
from anabranch.exchange.partition_map import PartitionMap
from anabranch.plan.local_plan import LocalPlan
from anabranch.queries.catalog import Catalog
from anabranch.state import BlockMeta
from anabranch.state.compaction import plan_compaction
from anabranch.state.expiry import held_back
from anabranch.state.stamp import Stamp
from anabranch.state.storage import Storage


def plan_task(
    batch: int,
    *,
    storage: Storage,
    stamp: Stamp,
    catalog: Catalog,
    wire: Wire,
    settings: Settings,
    partition_map: PartitionMap,
    tracks: Tracks,
    work: Mapping[int, tuple[TrackWork, ...]],
    stored: Sequence[BlockMeta],
    watermarks: Mapping[str, int | None],
    admission: Admission,
    look: int | None,
    little: bool,
    now_s: float,
) -> SlotTask:
    """Describe a batch to its slots.

    Parameters
    ----------
    storage, stamp
        The checkpoint as tasks see it, and who writes to it.
    stored
        Blocks of the last manifest.
    watermarks
        By stream, after the last batch.
    little
        Whether one slot is enough.
    """
    layout, plans = catalog.layout, all_plans(work)
    waiting = waiting_blocks(layout, stored)
    held = held_back(watermarks, oldest_waiting(layout, waiting))
    blocks = without_strangers(live_blocks(stored, plans, held, catalog.emitted()), work)
    owing = owing_partitions(plans, blocks, admission.spilled)
    emissions = emissions_of(plans, held, catalog.emitted(), catalog.ahead(), owing)
    barriers = _barriers(tracks)
    shipments = plan_shipments(
        tracks.transfers, blocks, work, buckets=bucket_lengths(plans), barriers=barriers
    )
    leaving = {name for s in shipments for name in s.blocks}
    slots = 1 if little else min(settings.slots, partition_map.sites)
    by_input = (watermarks[source.stream] for source in layout.inputs)
    drift = settings.max_drift_seconds
    return SlotTask(
        storage=storage,
        stamp=stamp,
        batch=batch,
        slots=slots,
        gathers=little,
        partition_map=partition_map,
        layout=layout,
        wire=wire,
        streams=tuple(s.name for s in catalog.streams),
        times={s.name: s.time for s in catalog.streams},
        earliest=tuple(NEVER_LATE if w is None else w for w in by_input),
        latest=int((now_s + drift) * 1_000_000) if drift else (1 << 63) - 1,
        work=work,
        stateful=frozenset(states_of(plans)),
        blocks=blocks + waiting,
        merges=_merges([b for b in blocks if b.name not in leaving], plans, settings, barriers),
        quota_pairs=settings.quota_pairs,
        work_memory=settings.work_memory_bytes,
        admission=admission,
        look=look,
        memory=memory_plan(plans, settings),
        emissions=emissions,
        trims=trims_of(plans, emissions),
        shipments=shipments,
    )


def _merges(
    blocks: Sequence[BlockMeta], plans: Sequence[LocalPlan], settings: Settings, barriers: Sequence[int]
) -> tuple[tuple[str, ...], ...]:
    by_state: dict[str, list[BlockMeta]] = {}
    for block in blocks:
        by_state.setdefault(block.state, []).append(block)
    merges: list[tuple[str, ...]] = []
    room = settings.work_memory_bytes
    # Under a memory budget mergers are written in pieces.
    most_bytes = None if room is None or settings.memory_budget_bytes else room // MERGE_COPIES
    for state, bucket_us in bucket_lengths(plans).items():
        merges += plan_compaction(
            by_state.get(state, ()),
            bucket_us=bucket_us,
            max_blocks=settings.max_blocks,
            barriers=barriers,
            separate_slots=True,
            most_bytes=most_bytes,
        )
    return tuple(merges)


def _barriers(tracks: Tracks) -> list[int]:
    """Batches at which tracks began while older ones still work: rows from before stay apart."""
    return sorted({t.until for t in tracks.ending if t.until is not None})
