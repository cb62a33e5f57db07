"""Parcels: what leaves a hop for a slot of the next, rows of a state, a block of them, or a slot's report.

Whole record batches travel as bytes, so that a shuffle between two hops moves some parcels, not rows. What is
too much for that is in a block, whose name and checksum travel. The report of a slot goes to the same slot of
the next hop, with the names of the blocks that it wrote: a later hop never looks for a file by its path, so
that a task that ran twice cannot be half seen.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

import numpy as np
import pyarrow as pa

from anabranch.engine.reports import SlotReport
from anabranch.exchange.slot_map import SlotMap
from anabranch.operators.rows.row_set import concat_rows, int64s
from anabranch.plan.inputs import HASH
from anabranch.plan.states.state_id import KEEPS_NOTHING, StateId
from anabranch.state.block import BlockMeta

MOST_BYTES = 64 << 20
"""Of a parcel, about: binary values of Spark end at 2 GiB."""

SCHEMA = pa.schema(
    [("slot", pa.int32()), ("state", pa.string()), ("content", pa.string()), ("payload", pa.binary())]
)


class Content(StrEnum):
    """What is in a parcel."""

    ROWS = "rows"
    BLOCK = "block"
    """The description of a block, which has rows of its receiver alone."""
    REPORT = "report"


@dataclass(frozen=True, slots=True)
class Parcel:
    slot: int
    state: StateId
    """What keeps the rows; of a report, nothing."""
    content: Content
    payload: bytes


@dataclass(frozen=True, slots=True)
class Arrived:
    """What has come to a slot, by the state that keeps it, and the reports of earlier hops."""

    rows: dict[StateId, list[pa.RecordBatch]] = field(default_factory=dict)
    blocks: dict[StateId, list[BlockMeta]] = field(default_factory=dict)
    reports: list[SlotReport] = field(default_factory=list)

    def __bool__(self) -> bool:
        return bool(self.rows or self.blocks)


def parcels_of(sent: Mapping[StateId, Sequence[pa.RecordBatch]], slot_map: SlotMap) -> Iterator[Parcel]:
    """Rows by the slot that owns their partition."""
    for state, batches in sent.items():
        rows = concat_rows(list(batches))
        owners = slot_map.owner_rows(int64s(rows, HASH))
        for slot in np.unique(owners).tolist():
            mine = rows.filter(pa.array(owners == slot))
            pieces = max(1, -(-mine.nbytes // MOST_BYTES))
            size = -(-mine.num_rows // pieces)
            for start in range(0, mine.num_rows, size):
                yield Parcel(slot, state, Content.ROWS, _to_bytes(mine.slice(start, size)))


def block_parcel(slot: int, block: BlockMeta) -> Parcel:
    return Parcel(slot, block.state, Content.BLOCK, pickle.dumps(block))


def report_parcel(slot: int, report: SlotReport) -> Parcel:
    return Parcel(slot, KEEPS_NOTHING, Content.REPORT, pickle.dumps(report))


def opened(parcels: Iterable[Parcel]) -> Arrived:
    """What is in some parcels."""
    arrived = Arrived()
    for parcel in parcels:
        if parcel.content == Content.ROWS:
            arrived.rows.setdefault(parcel.state, []).append(_from_bytes(parcel.payload))
            continue
        # From our own tasks, over Spark's authenticated channel.
        found = pickle.loads(parcel.payload)  # noqa: S301
        if parcel.content == Content.BLOCK:
            arrived.blocks.setdefault(parcel.state, []).append(found)
        else:
            arrived.reports.append(found)
    return arrived


def _to_bytes(batch: pa.RecordBatch) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    return bytes(sink.getvalue())


def _from_bytes(payload: bytes) -> pa.RecordBatch:
    with pa.ipc.open_stream(payload) as reader:
        return reader.read_next_batch()
