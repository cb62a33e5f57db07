"""A run in which every site is a slot with caches of its own, as if it were a machine.

Sites of one process share blocks that are open and what was built on them. Where groups are spread every site
opens the blocks of all, and has to pay for it.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from unittest import mock

import pyarrow as pa

from anabranch.engine.local_driver import LocalRun, rows_by_slot, run_hops
from anabranch.engine.local_ingest import wire_rows
from anabranch.engine.reports import SlotReport
from anabranch.engine.task.arrival.parcel import Parcel
from anabranch.engine.task.arrival.routing import routed
from anabranch.engine.task.slot_run import run_first_hop
from anabranch.engine.task.slot_task import SlotTask
from anabranch.engine.task.worker import constants
from anabranch.state.storage.posix_storage import PosixStorage


@dataclass(frozen=True, slots=True)
class MachineStorage(PosixStorage):
    """The checkpoint as one machine sees it: what is open of it is kept by storage."""

    machine: int


class MachinesRun(LocalRun):
    """A session with as many slots as sites; `slot_s` has the CPU time of each in the last step."""

    slot_s: list[float]

    def _execute(self, task: SlotTask) -> list[SlotReport]:
        self.slot_s = [0.0] * task.slots
        rows = wire_rows(self.loop.layout, self.loop.wire, self.streams, self._tables)
        # What all steps are told would be forgotten and read again by one machine after the other.
        with mock.patch.object(constants, "KEPT", 2 + 2 * task.slots):
            return run_hops(task, rows_by_slot(task, routed(rows, task.routers())), first=self._timed)

    def _timed(self, task: SlotTask, slot: int, rows: list[pa.RecordBatch]) -> Iterator[Parcel]:
        assert isinstance(self.storage, PosixStorage)
        mine = replace(task, storage=MachineStorage(self.storage.root, slot))
        began = time.thread_time()
        parcels = list(run_first_hop(mine, slot, rows))
        self.slot_s[slot] = time.thread_time() - began
        yield from parcels
