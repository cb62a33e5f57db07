"""What the slots of the next batch are told: live blocks, work of every site, merges, emissions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from anabranch.adapt.tracks import Tracks
from anabranch.exchange.partition_map import PartitionMap
from anabranch.plan.local_plan import LocalPlan
from anabranch.runtime.admission import Admission, oldest_waiting, waiting_blocks
from anabranch.runtime.catalog import Catalog
from anabranch.runtime.finality import emissions_of, trims_of
from anabranch.runtime.memory_plan import memory_plan, owing_partitions
from anabranch.runtime.retention import bucket_lengths, live_blocks, states_of
from anabranch.runtime.settings import Settings
from anabranch.runtime.shipments import plan_shipments
from anabranch.runtime.site_work import TrackWork, all_plans, without_strangers
from anabranch.runtime.slot_task import SlotTask
from anabranch.runtime.wire import Wire
from anabranch.state import BlockMeta
from anabranch.state.compaction import plan_compaction
from anabranch.state.expiry import held_back

NEVER_LATE = -(1 << 63)


def plan_task(
    batch: int,
    *,
    root: Path,
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
    now_s: float,
) -> SlotTask:
    """Describe a batch to its slots.

    Parameters
    ----------
    root
        Directory of the checkpoint, as tasks see it.
    stored
        Blocks of the last manifest.
    watermarks
        By stream, after the last batch.
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
    slots = min(settings.slots, partition_map.sites)
    by_input = (watermarks[source.stream] for source in layout.inputs)
    drift = settings.max_drift_seconds
    return SlotTask(
        checkpoint=root,
        batch=batch,
        slots=slots,
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
        merges=_merges([b for b in blocks if b.name not in leaving], plans, settings.max_blocks, barriers),
        quota_pairs=settings.quota_pairs,
        admission=admission,
        look=look,
        memory=memory_plan(plans, settings),
        emissions=emissions,
        trims=trims_of(plans, emissions),
        shipments=shipments,
    )


def _merges(
    blocks: Sequence[BlockMeta], plans: Sequence[LocalPlan], max_blocks: int, barriers: Sequence[int]
) -> tuple[tuple[str, ...], ...]:
    by_state: dict[str, list[BlockMeta]] = {}
    for block in blocks:
        by_state.setdefault(block.state, []).append(block)
    merges: list[tuple[str, ...]] = []
    for state, bucket_us in bucket_lengths(plans).items():
        merges += plan_compaction(
            by_state.get(state, ()),
            bucket_us=bucket_us,
            max_blocks=max_blocks,
            barriers=barriers,
            separate_slots=True,
        )
    return tuple(merges)


def _barriers(tracks: Tracks) -> list[int]:
    """Batches at which tracks began while older ones still work: rows from before stay apart."""
    return sorted({t.until for t in tracks.ending if t.until is not None})
