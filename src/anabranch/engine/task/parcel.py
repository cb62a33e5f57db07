"""Parcels: what leaves a hop for a slot of the next, rows of a state or the report of a slot.

Whole record batches travel as bytes, so that a shuffle between two hops moves some parcels, not rows. The
report of a slot goes to the same slot of the next hop, with the names of the blocks that it wrote: a later
hop never looks for a file by its path, so that a task that ran twice cannot be half seen.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from anabranch.engine.reports import SlotReport
from anabranch.exchange.slot_map import SlotMap
from anabranch.operators.rows.row_set import int64s
from anabranch.plan.inputs import HASH
from anabranch.plan.state_id import StateId

MOST_BYTES = 64 << 20
"""Of a parcel, about: binary values of Spark end at 2 GiB."""

SCHEMA = pa.schema([("slot", pa.int32()), ("state", pa.string()), ("payload", pa.binary())])


@dataclass(frozen=True, slots=True)
class Parcel:
    slot: int
    state: StateId | None
    """What keeps the rows; None for a report."""
    payload: bytes


def parcels_of(sent: Mapping[StateId, Sequence[pa.RecordBatch]], slot_map: SlotMap) -> Iterator[Parcel]:
    """Rows by the slot that owns their partition."""
    for state, batches in sent.items():
        for batch in batches:
            owners = slot_map.owner_rows(int64s(batch, HASH))
            for slot in np.unique(owners).tolist():
                mine = batch.filter(pa.array(owners == slot))
                pieces = max(1, -(-mine.nbytes // MOST_BYTES))
                size = -(-mine.num_rows // pieces)
                for start in range(0, mine.num_rows, size):
                    yield Parcel(slot, state, _to_bytes(mine.slice(start, size)))


def report_parcel(slot: int, report: SlotReport) -> Parcel:
    return Parcel(slot, None, pickle.dumps(report))


def opened(parcels: Iterable[Parcel]) -> tuple[dict[StateId, list[pa.RecordBatch]], list[SlotReport]]:
    """Rows by state, and reports of earlier hops."""
    rows: dict[StateId, list[pa.RecordBatch]] = {}
    reports: list[SlotReport] = []
    for parcel in parcels:
        if parcel.state is None:
            # From our own tasks, over Spark's authenticated channel.
            reports.append(pickle.loads(parcel.payload))  # noqa: S301
        else:
            rows.setdefault(parcel.state, []).append(_from_bytes(parcel.payload))
    return rows, reports


def _to_bytes(batch: pa.RecordBatch) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    return bytes(sink.getvalue())


def _from_bytes(payload: bytes) -> pa.RecordBatch:
    with pa.ipc.open_stream(payload) as reader:
        return reader.read_next_batch()
