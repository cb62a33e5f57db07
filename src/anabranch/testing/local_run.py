"""A session without Spark: the real batch loop, slot task, state and sinks on rows handed over."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa

from anabranch.exchange.partition_map import partition_of
from anabranch.plan.layout import HASH
from anabranch.plan.logical import Query, Stream
from anabranch.runtime.batch_loop import BatchLoop, BatchSummary
from anabranch.runtime.catalog import reconcile
from anabranch.runtime.open_blocks import close_blocks
from anabranch.runtime.reports import SlotReport
from anabranch.runtime.settings import Settings
from anabranch.runtime.sinks import MemorySink, Sink
from anabranch.runtime.site_work import is_over
from anabranch.runtime.slot_task import SlotTask, run_slot
from anabranch.runtime.steering import IsOver
from anabranch.runtime.worker_process import keep_memory
from anabranch.state import PosixStorage, Storage, newest
from anabranch.state.fence import acquire
from anabranch.state.layout import BLOCKS
from anabranch.testing.local_ingest import wire_rows


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
        clock: Callable[[], float] = time.time,
    ) -> None:
        keep_memory()
        self.streams = tuple(streams)
        self.sinks: Mapping[str, Sink] = sinks or {q.name: MemorySink() for q in queries}
        self._root = root
        self._bits = wide_hash_bits
        self._tables: Mapping[str, pa.Table] = {}
        storage = storage or PosixStorage(root)
        self.fence = acquire(storage)
        try:
            self.loop = BatchLoop(
                storage=storage,
                fence=self.fence,
                root=root,
                catalog=reconcile(self.streams, tuple(queries), newest(storage)),
                settings=settings or Settings(sites=1, slots=1),
                sinks=self.sinks,
                execute=self._execute,
                is_over=is_over,
                clock=clock,
            )
        except BaseException:
            self.fence.release()
            raise

    @property
    def next_batch(self) -> int:
        return self.loop.manifest.batch + 1 if self.loop.manifest else 0

    def batch(self, tables: Mapping[str, pa.Table], *, number: int | None = None) -> BatchSummary:
        """Run one batch; `number` repeats an earlier one, as Spark does after a crash."""
        self._tables = tables
        number = self.next_batch if number is None else number
        return self.loop.process(number, offsets=f"batch {number}", source_id="local")

    def end_of_input(self) -> list[BatchSummary]:
        """Declare the end of input, as a run with `endOfInput` does after its last batch."""
        self._tables = {}
        return list(self.loop.end_of_input())

    def drain(self) -> list[BatchSummary]:
        """Let waiting rows enter, as a run does when it has read everything."""
        self._tables = {}
        return list(self.loop.drain())

    def results(self, query: str) -> pa.Table:
        sink = self.sinks[query]
        assert isinstance(sink, MemorySink)
        return sink.table()

    def close(self) -> None:
        self.fence.release()
        close_blocks(self._root / BLOCKS)  # files that are mapped take up the disk

    def _execute(self, task: SlotTask) -> list[SlotReport]:
        rows = wire_rows(
            self.loop.layout, self.loop.wire, self.streams, self._tables, wide_hash_bits=self._bits
        )
        partitions = partition_of(rows.column(HASH).to_numpy())
        slots_of = task.destinations()
        reports = []
        for slot in range(task.slots):
            mine = np.array([slot in s for s in slots_of])[partitions]
            reports.append(run_slot(task, slot, rows.filter(pa.array(mine)).to_batches()))
        return reports
