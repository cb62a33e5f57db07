"""Shipments: what a site copies from another when partitions move between sites that share nothing.

With `isolation = 'per_site'` a move copies the slices that the receiver's newest tracks read into blocks
of its own, in the batch after the decision (D-CAPE, section 4.2, steps 6 and 7). States that the
receiver's plan does not have are not sent. By parallel track the receiver reads nothing from before, so that
nothing is sent for joins; aggregates, which have no tracks, always move their state.

Two things are as with shared blocks, because neither changes what a site's CPU has to do: a slot writes the
new rows of its sites into one file, and a track that ends reads the new rows that drain there, which it was
sent as well, from the file of their owner.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa

from anabranch.adapt.tracks.tracks import Transfer
from anabranch.engine.step.manifests.retention import states_of
from anabranch.engine.task.blocks.open_blocks import OpenBlock
from anabranch.engine.task.sites.site_work import TrackWork
from anabranch.exchange.partition_set import NOTHING, PartitionSet
from anabranch.operators.rows.row_set import rows_in
from anabranch.plan.states.state_id import StateId
from anabranch.state.block import BlockMeta
from anabranch.state.compaction import merge_group_of


@dataclass(frozen=True, slots=True)
class Shipment:
    """Slices of one state that become one block of the receiver.

    Attributes
    ----------
    blocks
        Partitions to take, by block.
    batches
        First and last batch of the rows.
    """

    source: int
    target: int
    state: StateId
    blocks: Mapping[str, PartitionSet]
    batches: tuple[int, int]

    def pack(self, opened: Mapping[str, OpenBlock]) -> list[pa.RecordBatch]:
        """Cut the slices out of their blocks: the sender's work."""
        pieces = []
        for name, partitions in self.blocks.items():
            assert name in opened, f"{name} has rows of this slot, but is not open"
            pieces.append(rows_in(opened[name].rows.batch, partitions.flags()))
        return pieces


def folder_of(site: int) -> str:
    """Folder for what a site has copied."""
    return f"site-{site:03d}"


def plan_shipments(
    transfers: Sequence[Transfer],
    blocks: Sequence[BlockMeta],
    work: Mapping[int, Sequence[TrackWork]],
    *,
    buckets: Mapping[str, int | None],
    barriers: Sequence[int],
) -> tuple[Shipment, ...]:
    """What has to be copied so that every receiver has the rows it reads.

    Parameters
    ----------
    work
        The tracks of every site, the moves made.
    buckets, barriers
        Slices become one block only where compaction would merge theirs.
    """
    shipments = []
    for transfer in transfers:
        readers = [w for w in work.get(transfer.target, ()) if w.until is None]
        states = [states_of([w.plan]) for w in readers]
        groups: dict[tuple[StateId, tuple[int, ...]], list[tuple[BlockMeta, PartitionSet]]] = {}
        for block in blocks:
            wanted = NOTHING
            for reader, its in zip(readers, states, strict=True):
                if block.state in its and block.last_batch >= reader.after:
                    wanted |= reader.partitions
            if slices := wanted & transfer.partitions & PartitionSet.of(p for p, _ in block.partitions):
                merge_group = merge_group_of(block, buckets.get(block.state), barriers)
                groups.setdefault((block.state, merge_group), []).append((block, slices))
        for (state, _), found in groups.items():
            span = min(b.batch for b, _ in found), max(b.last_batch for b, _ in found)
            taken = {b.name: slices for b, slices in found}
            shipments.append(Shipment(transfer.source, transfer.target, state, taken, span))
    return tuple(shipments)


def without_shipped(blocks: Sequence[BlockMeta], shipments: Sequence[Shipment]) -> tuple[BlockMeta, ...]:
    """Blocks without the slices that receivers have copied."""
    gone: dict[str, PartitionSet] = {}
    for shipment in shipments:
        for name, partitions in shipment.blocks.items():
            gone[name] = gone.get(name, NOTHING) | partitions
    kept = []
    for block in blocks:
        if block.name not in gone:
            kept.append(block)
        elif rest := tuple((p, n) for p, n in block.partitions if p not in gone[block.name]):
            kept.append(replace(block, partitions=rest))
    return tuple(kept)
