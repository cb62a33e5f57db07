"""What leaves a hop: held while it is little, written as blocks where it is much.

    joined rows ─► held ──────────────► parcels of rows: the next hop keeps them in a block of its own
                    └─ a full piece ──► parcels of block names: the next hop reads them where they are
    for a spilled partition ──────────► blocks of waiting rows: they enter when the partition has its turn

A block has the rows of one slot, in the form of the state that they enter, so that its receiver need not
write them again. All slots of a step know which partitions are spilled: rows for these do not travel, and no
hop works on more state than the memory budget allows. Rows on a path wait for nothing, and no state keeps
them: their blocks are garbage when the step has ended.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain

import numpy as np
import pyarrow as pa

from anabranch.engine.task.arrival.admission import split_spilled
from anabranch.engine.task.arrival.parcel import Arrived, Parcel, block_parcel, parcels_of
from anabranch.engine.task.blocks.block_writer import BlockWriter
from anabranch.exchange.slot_map import SlotMap
from anabranch.operators.rows.row_set import RowSet, concat_rows, int64s
from anabranch.plan.inputs import HASH, MAX_TIME
from anabranch.plan.states.state_id import StateId, StateKind
from anabranch.state.block import BlockMeta


class Outbox:
    """Takes joined rows that go on.

    Parameters
    ----------
    files
        Where full pieces go.
    slot_map
        Who gets the rows of each partition.
    spilled
        Partitions whose rows wait.
    piece
        Bytes that are held.
    """

    def __init__(
        self, files: BlockWriter, slot_map: SlotMap, *, spilled: Collection[int] = (), piece: int
    ) -> None:
        self._files = files
        self._slot_map = slot_map
        self._spilled = spilled
        self._piece = piece
        self._held: dict[StateId, list[pa.RecordBatch]] = {}
        self._size = 0
        self._blocks: dict[StateId, list[tuple[int, BlockMeta]]] = {}
        self._waiting: dict[StateId, list[BlockMeta]] = {}

    def add(self, state: StateId, rows: pa.RecordBatch) -> None:
        """Let rows go on to the station where `state` keeps them, or along their path."""
        self._held.setdefault(state, []).append(rows)
        self._size += rows.nbytes
        if self._size >= self._piece:
            self._write()

    def states(self) -> frozenset[StateId]:
        """Of all rows that go on."""
        return frozenset((*self._held, *self._blocks))

    def discard(self, states: Iterable[StateId]) -> None:
        """Take back what goes to some states: their query has ended."""
        for state in states:
            self._size -= sum(batch.nbytes for batch in self._held.pop(state, ()))
            self._files.discard(block for _, block in self._blocks.pop(state, ()))
            self._files.discard(self._waiting.pop(state, ()))

    def waiting(self) -> list[BlockMeta]:
        """Blocks of rows that wait for their partitions; everything that goes on has been added."""
        if self._spilled:
            for state, batches in self._held.items():
                self._held[state] = [self._put_off(state, concat_rows(batches))]
        return [block for blocks in self._waiting.values() for block in blocks]

    def parcels(self) -> Iterator[Parcel]:
        """What travels."""
        for slot, block in chain.from_iterable(self._blocks.values()):
            yield block_parcel(slot, block)
        yield from parcels_of(self._held, self._slot_map)

    def arrived(self) -> Arrived:
        """The same where the receiver is this slot: nothing has to be packed."""
        blocks = {state: [block for _, block in its] for state, its in self._blocks.items()}
        rows = {state: its for state, its in self._held.items() if its[0].num_rows}
        return Arrived(rows, blocks)

    def _write(self) -> None:
        held: Mapping[StateId, list[pa.RecordBatch]] = self._held
        self._held, self._size = {}, 0
        for state, batches in held.items():
            rows = self._put_off(state, concat_rows(batches))
            owners = self._slot_map.owner_rows(int64s(rows, HASH))
            for slot in np.unique(owners).tolist():
                mine = RowSet.sorted(rows.filter(pa.array(owners == slot)), MAX_TIME)
                self._blocks.setdefault(state, []).append(
                    (slot, self._files.write(state, mine.batch, MAX_TIME))
                )

    def _put_off(self, state: StateId, rows: pa.RecordBatch) -> pa.RecordBatch:
        """Let rows of spilled partitions wait; returns the others."""
        if state.kind is StateKind.TRAVELLING:
            return rows
        now, later = split_spilled(rows, self._spilled)
        if later is not None:
            sorted_rows = RowSet.sorted(later, MAX_TIME).batch
            block = self._files.write(state.waiting, sorted_rows, MAX_TIME)
            self._waiting.setdefault(state, []).append(block)
        return now


@dataclass(frozen=True, slots=True)
class Stop:
    """A stop of rows at the stations of a site."""

    arrived: Mapping[StateId, Sequence[RowSet]] = field(default_factory=dict)
    """Joined rows that have come, by state."""
    is_first: bool = True
    """Whether new rows of streams arrive, too."""
    outbox: Outbox | None = None
    """Where rows go on."""
