"""Arrivals: the rows a slot receives, told apart by input, sorted, and checked against the clock."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from anabranch.engine.event_time import NEVER_LATE
from anabranch.engine.reports import StreamReport
from anabranch.engine.task.arrival.dead_letters import letters_of, opened
from anabranch.engine.task.arrival.split_rows import MARK, SplitRows, split_rows, with_batch
from anabranch.engine.task.arrival.wire import DEAD, TAG, decode
from anabranch.exchange.address import partition_of
from anabranch.exchange.router import COPY, INPUT_MASK
from anabranch.operators.rows.row_set import RowSet, concat_rows, int64s
from anabranch.plan.inputs import HASH, SEQUENCE, TIME

if TYPE_CHECKING:
    from anabranch.engine.task.slot_task import SlotTask


class Arrivals:
    """Sorts out the wire rows of one slot.

    `streams` and `dead` tell afterwards what was seen and what was refused.

    Parameters
    ----------
    owned
        Partitions of the slot.
    at_work
        These, and partitions of others on whose rows tracks of the slot still work: such rows are
        draining, counted and buried by their owner.
    """

    def __init__(self, task: SlotTask, owned: np.ndarray, at_work: np.ndarray) -> None:
        self.task = task
        self._owned = owned
        self._at_work = at_work
        self.streams: dict[str, StreamReport] = {}
        self.arrived: dict[int, tuple[int, int]] = {}
        """By input whose rows a router spreads: rows, and further copies of them."""
        self.dead: list[pa.Table] = []
        self.split: dict[int, SplitRows] = {}
        """By lane, rows of hot keys."""

    @cached_property
    def _earliest(self) -> tuple[int, ...]:
        return self.task.earliest

    @cached_property
    def _spread(self) -> frozenset[int]:
        """Inputs whose rows a router may copy."""
        task = self.task
        if not (task.aligned or task.coordinated or task.hot):
            return frozenset()
        hot = {state for key in task.hot for state in key.states}
        mine = {source.id for source in task.layout.inputs if source.state in hot}
        for routed in task.layout.queries:
            if routed.query.name in task.aligned or routed.query.name in task.coordinated:
                mine.update(routed.inputs)
        return frozenset(mine)

    @cached_property
    def _refused_before(self) -> np.ndarray:
        """Per input the time before which its rows are refused; where nothing is kept, none are."""
        pairs = zip(self.task.layout.inputs, self._earliest, strict=True)
        return np.array([NEVER_LATE if i.stateless else earliest for i, earliest in pairs], dtype=np.int64)

    def sort_out(self, arrived: list[pa.RecordBatch]) -> dict[int, RowSet]:
        """New rows by input, sorted; ticks and dead rows are accounted for on the way."""
        if not arrived:
            return {}
        rows = _unmarked(concat_rows([_with_wide_offsets(batch) for batch in arrived]))
        partitions = partition_of(int64s(rows, HASH))
        if not self._at_work[partitions].all():
            # Spark wraps a wrong id around and sends NULL to slot 0 without a word.
            raise AssertionError("a slot received rows of another slot")
        if (owned := self._owned[partitions]).all():
            rows = self._accept(rows)
        else:
            draining = rows.filter(pa.array(~owned))
            draining = draining.filter(pa.array(~np.logical_or.reduce(self._refused(draining))))
            if MARK in rows.schema.names:  # rows of hot keys are worked on by the owner of their lane alone
                draining = draining.filter(pa.array(~_has_home(draining)))
            rows = concat_rows([self._accept(rows.filter(pa.array(owned))), draining])
        if MARK in rows.schema.names:
            rows = self._without_split(rows)
        new = {}
        for number, mine in _positions_by_value(rows.column(TAG).to_numpy() >> 1):
            if number < 0:
                continue
            own = rows if len(mine) == rows.num_rows else rows.take(pa.array(mine))
            decoded = with_batch(decode(own, self.task.wire.values[number]), self.task, number)
            if self.task.layout.inputs[number].sequenced:
                decoded = decoded.append_column(SEQUENCE, self._sequence(int64s(own, SEQUENCE)))
            new[number] = RowSet.sorted(decoded, TIME)
        return new

    def _without_split(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        """The rows without those of hot keys, which are kept apart."""
        travelled = _has_home(rows)
        if travelled.any():
            split = rows.filter(pa.array(travelled))
            numbers = split.column(TAG).to_numpy() >> 1
            self.split = split_rows(split, numbers, self.task)
        return rows.filter(pa.array(~travelled)) if travelled.any() else rows

    def _sequence(self, order: np.ndarray) -> pa.Array:
        """Numbers in the order of arrival, across batches."""
        ranks = np.empty(len(order), dtype=np.int64)
        ranks[np.argsort(order, kind="stable")] = np.arange(len(order))
        return pa.array((self.task.batch << 31) + ranks)

    def _accept(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        rows = self._refuse(rows)
        marks = rows.column(MARK).to_numpy() if MARK in rows.schema.names else None
        self._count(rows.column(TAG).to_numpy(), int64s(rows, TIME), marks)
        return rows

    def _stream_of(self, tag: int) -> str:
        if tag < 0:
            return self.task.told.streams[(-1 - tag) // 2]
        return self.task.layout.inputs[tag >> 1].stream

    def _count(self, tags: np.ndarray, times: np.ndarray, marks: np.ndarray | None) -> None:
        for tag, mine in _positions_by_value(tags):
            if tag >> 1 in self._spread:
                copies = 0 if marks is None else int(np.count_nonzero(marks[mine] & COPY))
                before = self.arrived.get(tag >> 1, (0, 0))
                self.arrived[tag >> 1] = before[0] + len(mine) - copies, before[1] + copies
            stream = self.streams.setdefault(self._stream_of(tag), StreamReport())
            in_time = times[mine]
            if tag >= 0 and self.task.layout.inputs[tag >> 1].stateless:
                in_time = in_time[in_time >= self._earliest[tag >> 1]]
            if tag < 0 or tag & 1:  # further copies of a row do not count again
                stream.accepted += len(in_time)
                stream.late += len(mine) - len(in_time)
            if len(in_time):
                latest = int(in_time.max())
                stream.max_ts = latest if stream.max_ts is None else max(stream.max_ts, latest)

    def _refused(self, rows: pa.RecordBatch) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Which rows are refused as late, which as too far ahead, and which are malformed or have no time."""
        tags, times = rows.column(TAG).to_numpy(), int64s(rows, TIME)
        late = (tags >= 0) & (times < self._refused_before[np.maximum(tags >> 1, 0)])
        broken = (tags < 0) & (tags & 1 == 0)
        ahead = ~broken & (times > self.task.latest)  # ticks too: they would move the watermark
        return late, ahead, broken

    def _refuse(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        """Take out the rows that are refused, and keep them apart."""
        late, ahead, broken = self._refused(rows)
        refused = late | ahead | broken
        if not refused.any():
            return rows
        tags = rows.column(TAG).to_numpy()
        for reason, which in (("late", late), ("too far ahead", ahead), (None, broken)):
            # Further copies of the same row are dropped without a record.
            buried = np.flatnonzero(which & ((tags < 0) | (tags & 1 == 1)))
            for tag, mine in _positions_by_value(tags[buried]):
                dead = rows.take(pa.array(buried[mine]))
                if reason is not None:
                    self._bury(dead, tag, reason, self._text(dead, tag))
                else:
                    for its_reason, its, text in opened(dead.column(DEAD)):
                        self._bury(dead.take(pa.array(its)), tag, its_reason, text)
        return rows.filter(pa.array(~refused))

    def _text(self, rows: pa.RecordBatch, tag: int) -> pa.Array:
        """What is known of rows that were readable; of one that no query wanted, nothing but its time."""
        if tag < 0:
            return rows.column(DEAD)
        time = self.task.told.times[self._stream_of(tag)]
        return letters_of(rows, self.task.wire.values[tag >> 1], time=time)

    def _bury(self, rows: pa.RecordBatch, tag: int, reason: str, text: pa.Array) -> None:
        name = self._stream_of(tag)
        stream = self.streams.setdefault(name, StreamReport())
        if reason == "late":
            stream.late += rows.num_rows
            stream.refused += rows.num_rows
            oldest, before = int(int64s(rows, TIME).min()), stream.oldest_refused
            stream.oldest_refused = oldest if before is None else min(oldest, before)
        else:
            stream.rejected += rows.num_rows
        # Nothing in a malformed row is to be relied on, nor its time.
        has_time = not reason.startswith("malformed ")
        self.dead.append(
            pa.table(
                {
                    "stream": [name] * rows.num_rows,
                    "reason": [reason] * rows.num_rows,
                    "batch": np.full(rows.num_rows, self.task.batch),
                    "event_time_us": rows.column(TIME) if has_time else pa.nulls(rows.num_rows, pa.int64()),
                    "row": text.cast(pa.large_string()),
                }
            )
        )


def _unmarked(rows: pa.RecordBatch) -> pa.RecordBatch:
    """Rows whose tags name inputs alone; what else tags said, if anything, is a column of its own."""
    tags = rows.column(TAG).to_numpy()
    if not (tags > INPUT_MASK).any():
        return rows
    marks = np.where(tags < 0, 0, tags & ~INPUT_MASK)
    plain = np.where(tags < 0, tags, tags & INPUT_MASK).astype(np.int32)
    rows = rows.set_column(rows.schema.get_field_index(TAG), TAG, pa.array(plain))
    return rows.append_column(MARK, pa.array(marks))


def _has_home(rows: pa.RecordBatch) -> np.ndarray:
    """Which rows travel to another partition than their own."""
    marks = rows.column(MARK).to_numpy()
    found: np.ndarray = (marks & (COPY - 1)) > 0
    return found


def _positions_by_value(values: np.ndarray) -> Iterator[tuple[int, np.ndarray]]:
    """Where each value stands, from the least on: found in one pass, however many there are."""
    if not len(values):
        return
    narrow = values.astype(np.int16)  # sorted in linear time
    order = np.argsort(narrow if (narrow == values).all() else values, kind="stable")
    in_order = values[order]
    for mine in np.split(order, np.flatnonzero(np.diff(in_order)) + 1):
        yield int(values[mine[0]]), mine


def _with_wide_offsets(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Text and binary as blocks hold them: put together, Spark's 32-bit offsets might overflow."""
    wide = {pa.string(): pa.large_string(), pa.binary(): pa.large_binary()}
    return batch.cast(pa.schema([f.with_type(wide.get(f.type, f.type)) for f in batch.schema]))
