"""A session without Spark: the real batch loop, slot task, state and sinks on rows handed over."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

import pyarrow as pa

from anabranch.adapt.boundary.decider import Decider
from anabranch.engine.boundary.observation import IsOver
from anabranch.engine.listener import Listener
from anabranch.engine.live.mailbox import Letter, change_of
from anabranch.engine.local_ingest import wire_rows
from anabranch.engine.reports import SlotReport
from anabranch.engine.run_record import RunRecord
from anabranch.engine.settings import Settings
from anabranch.engine.sinks.memory_sink import MemorySink
from anabranch.engine.sinks.parquet_sink import ParquetSink, parquet_options
from anabranch.engine.sinks.shared_sink import SharedSink, declared_shared, placed, shared
from anabranch.engine.sinks.sink import Sink
from anabranch.engine.step.batch_loop import BatchLoop, BatchSummary
from anabranch.engine.task.arrival.parcel import Parcel, opened
from anabranch.engine.task.arrival.routing import routed
from anabranch.engine.task.arrival.sent_rows import SentRows
from anabranch.engine.task.arrival.wire import TAG
from anabranch.engine.task.blocks.open_blocks import close_blocks
from anabranch.engine.task.hop_run import run_hop
from anabranch.engine.task.sites.site_work import is_over
from anabranch.engine.task.slot_run import run_first_hop
from anabranch.engine.task.slot_task import SlotTask
from anabranch.engine.task.worker.worker_process import keep_memory
from anabranch.language.flow import bind_query
from anabranch.plan.inputs import HASH
from anabranch.plan.logical import Connector, Query, Stream
from anabranch.queries.changes import queries_at_start
from anabranch.queries.reconcile import reconcile
from anabranch.queries.turnover import Add, Change, Drop, Replace
from anabranch.state import PosixStorage, Storage, newest
from anabranch.state.fence import acquire


class LocalRun:
    """Runs batches in this process.

    Opening a second one on the same `root` after the first was closed, or died, is a restart.
    """

    def __init__(
        self,
        root: Path,
        streams: Sequence[Stream],
        queries: Sequence[Query],
        *,
        sinks: Mapping[str, Sink] | None = None,
        settings: Settings | None = None,
        storage: Storage | None = None,
        wide_hash_bits: int = 64,
        is_over: IsOver = is_over,
        decider: Decider | None = None,
        clock: Callable[[], float] = time.time,
        listeners: Sequence[Listener] = (),
    ) -> None:
        keep_memory()
        self.streams = tuple(streams)
        settings = settings or Settings(sites=1, slots=1)
        self._bits = wide_hash_bits
        self._tables: Mapping[str, pa.Table] = {}
        self.storage = storage = storage or PosixStorage(root)
        self.fence = acquire(storage)
        try:
            manifest = newest(storage)
            self._known = {stream.name: stream for stream in streams}
            running, submitted = queries_at_start(queries, manifest, self._known)
            given = sinks or {}
            # What a flow file says of sinks is meant for Spark: here results stay in memory, but for queries
            # that came while a session ran.
            self.sinks: dict[str, Sink] = {
                q.name: given.get(q.name) or (_sink(q) if q.name in submitted else MemorySink())
                for q in running
            }
            running = placed(running, self.sinks, manifest)
            self.loop = BatchLoop(
                storage=storage,
                fence=self.fence,
                catalog=reconcile(
                    self.streams,
                    running,
                    manifest,
                    stations=settings.uses_stations,
                    eddies=settings.uses_eddies,
                    submitted=submitted,
                    sharing=settings.sharing,
                ),
                settings=settings,
                sinks=self.sinks,
                execute=self._execute,
                is_over=is_over,
                decider=decider,
                clock=clock,
            )
            self._sent = SentRows(self.loop.layout, self.loop.wire)
            self.restarts = 0
            """How often ingest was started anew, for a layout that needs other rows."""
            self.record = RunRecord(self.loop.manifest, self.loop.failures, listeners=listeners)
        except BaseException:
            self.fence.release()
            raise

    @property
    def next_batch(self) -> int:
        return self.loop.manifest.batch + 1 if self.loop.manifest else 0

    def next_task(self) -> SlotTask:
        """What the slots of the next batch would be told now; nothing changes by it."""
        return self.loop._task(self.next_batch, time.time())

    def batch(self, tables: Mapping[str, pa.Table], *, number: int | None = None) -> BatchSummary:
        """Run one batch; `number` repeats an earlier one, as Spark does after a crash."""
        self.loop.read_mail(self._read)
        self._tables = tables
        number = self.next_batch if number is None else number
        summary = self._told(self.loop.process(number, offsets=f"batch {number}", source_id="local"))
        while self.loop.owes_rows:
            self._tables = {}
            self._told(self.loop.step())
        return summary

    def end_of_input(self) -> list[BatchSummary]:
        """Declare the end of input, as a run with `endOfInput` does after its last batch."""
        self._tables = {}
        return [self._told(step) for step in self.loop.end_of_input()]

    def drain(self) -> list[BatchSummary]:
        """Let waiting rows enter, as a run does when it has read everything."""
        self._tables = {}
        return [self._told(step) for step in self.loop.drain()]

    def add(
        self, name: str, select: str, sink: Connector | Sink | None = None, *, history: bool = False
    ) -> None:
        """Let a query run from the next batch on."""
        connector = sink if isinstance(sink, Connector) else None
        query = bind_query(name, select, self._known, sink=connector)
        place = _sink(query) if sink is None or isinstance(sink, Connector) else sink
        self.loop.ask(Add(query, history), place)
        self.sinks[name] = place

    def drop(self, name: str) -> None:
        """Let a query end with the next step."""
        self.loop.ask(Drop(name))

    def replace(self, name: str, select: str) -> None:
        """Give a query another text from the next batch on."""
        before = next(q for q in self.loop.catalog.answered if q.name == name)
        self.loop.ask(Replace(bind_query(name, select, self._known, sink=before.sink)))

    def _read(self, letter: Letter) -> tuple[Change, Sink | None]:
        change = change_of(letter, self.loop.catalog, self._known)
        sink = None if isinstance(change, Drop | Replace) else _sink(change.query)
        if sink is not None:
            self.sinks.setdefault(letter.query, sink)
        return change, sink

    def results(self, query: str) -> pa.Table:
        sink = self.sinks[query]
        sink = sink.sink if isinstance(sink, SharedSink) else sink
        assert isinstance(sink, MemorySink)
        return sink.table()

    def close(self) -> None:
        self.fence.release()
        close_blocks(self.storage)  # files that are mapped take up the disk

    def _told(self, summary: BatchSummary) -> BatchSummary:
        self.record.committed(summary, self.loop.failures)
        return summary

    def _execute(self, task: SlotTask) -> list[SlotReport]:
        read_as = self._sent.read_for(self.loop.layout, self.loop.wire)
        if read_as is None:  # ingest is started anew, as on Spark
            self._sent = SentRows(self.loop.layout, self.loop.wire)
            self.restarts += 1
        sent = self._sent.layout, self._sent.wire
        rows = wire_rows(*sent, self.streams, self._tables, wide_hash_bits=self._bits)
        rows = read_as.placed(rows) if read_as else rows
        return run_hops(task, rows_by_slot(task, routed(rows, task.routers())))


def _sink(query: Query) -> Sink:
    if query.sink is None or query.sink.format != "parquet" or query.sink.path is None:
        return MemorySink()
    connector, is_shared = declared_shared(query.sink)
    sink = ParquetSink(query.sink.path, **parquet_options(connector))
    return shared(sink) if is_shared else sink


def rows_by_slot(task: SlotTask, rows: pa.Table) -> list[list[pa.RecordBatch]]:
    """Rows of a batch as its slots receive them."""
    addresses, tags, slot_map = rows.column(HASH).to_numpy(), rows.column(TAG).to_numpy(), task.slot_map()
    masks = (pa.array(slot_map.rows_of(slot, addresses, tags)) for slot in range(task.slots))
    return [rows.filter(mask).combine_chunks().to_batches() for mask in masks]


def run_hops(
    task: SlotTask,
    rows: Sequence[list[pa.RecordBatch]],
    *,
    first: Callable[[SlotTask, int, list[pa.RecordBatch]], Iterable[Parcel]] = run_first_hop,
    later: Callable[[SlotTask, int, int, list[Parcel]], Iterable[Parcel]] = run_hop,
) -> list[SlotReport]:
    """Run all slots of all hops of a step, one after the other."""
    parcels = [parcel for slot in range(task.slots) for parcel in first(task, slot, rows[slot])]
    for hop in range(1, task.hops):
        parcels = [
            parcel
            for slot in range(task.slots)
            for parcel in later(task, hop, slot, [p for p in parcels if p.slot == slot])
        ]
    left = opened(parcels)
    assert not left, "rows that leave the last hop have nowhere to go"
    return left.reports
