"""A later hop of a step at one slot: rows that have travelled meet what is kept at their stations."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from typing import TYPE_CHECKING

import numpy as np

from anabranch.engine.reports import SiteReport, SlotReport, charge_writing
from anabranch.engine.step.phase_times import PhaseTimes
from anabranch.engine.task.block_writer import BlockWriter
from anabranch.engine.task.open_blocks import OpenBlock, close_blocks, open_blocks
from anabranch.engine.task.outbox import Outbox, Stop
from anabranch.engine.task.parcel import Arrived, Parcel, opened, report_parcel
from anabranch.engine.task.site_work import TrackWork
from anabranch.engine.task.split_writer import SplitWriter, ended, writer_of
from anabranch.engine.task.staging import ResultWriter
from anabranch.engine.task.track_run import TrackRun
from anabranch.exchange.address import PARTITIONS
from anabranch.exchange.partition_counts import partition_counts
from anabranch.operators.rows.arrays import Int64s
from anabranch.operators.rows.index_memory import bound_indexes
from anabranch.operators.rows.row_set import RowSet, concat_rows
from anabranch.operators.work_memory import QuotaExceeded, piece_bytes
from anabranch.plan.inputs import HASH, MAX_TIME
from anabranch.plan.nodes import StationsNode
from anabranch.plan.state_id import StateId
from anabranch.state.block import BlockMeta, unique_part

Rows = dict[StateId, list[RowSet]]
"""By state, in pieces."""

if TYPE_CHECKING:
    from anabranch.engine.task.slot_task import SlotTask


def run_hop(
    task: SlotTask, hop: int, slot: int, parcels: Iterable[Parcel], *, attempt: str = "0"
) -> Iterator[Parcel]:
    """Work on what has arrived for a slot in a later hop; yields what leaves, and all reports so far."""
    arrived = opened(parcels)
    run = _HopRun(task, hop, slot, unique_part(f"{attempt}.{hop}"), arrived.reports)
    run.run(arrived)
    yield from run.outbox.parcels()
    for report in (*arrived.reports, run.report):
        yield report_parcel(slot, report)


def run_hops_inside(
    task: SlotTask, slot: int, outbox: Outbox, reports: list[SlotReport], *, attempt: str
) -> tuple[list[SlotReport], Outbox]:
    """All later hops of a step with one slot: nothing has to be packed."""
    for hop in range(1, task.stations):
        if not (arrived := outbox.arrived()):
            break
        run = _HopRun(task, hop, slot, unique_part(f"{attempt}.{hop}"), reports)
        run.run(arrived)
        reports, outbox = [*reports, run.report], run.outbox
    return reports, outbox


def outbox_of(task: SlotTask, files: BlockWriter) -> Outbox:
    """What takes the rows that leave a hop."""
    spilled, piece = task.admission.spilled, piece_bytes(task.work_memory)
    return Outbox(files, task.slot_map(), spilled=spilled, piece=piece)


class _HopRun:
    def __init__(
        self, task: SlotTask, hop: int, slot: int, unique: str, reports: Sequence[SlotReport]
    ) -> None:
        self.task = task
        self.report = SlotReport(slot, hop=hop)
        self._before = reports
        self._unique = unique
        self._sites = task.partition_map.sites_of_slot(slot, task.slots)
        self._site_of = task.partition_map.as_array()
        self._files = BlockWriter(task.storage, stamp=task.stamp, slot=slot, unique=unique)
        self._writers: dict[str, ResultWriter | SplitWriter] = {}
        self.outbox = outbox_of(task, self._files)
        """Rows that go on."""

    def run(self, arrived: Arrived) -> None:
        if not arrived:
            return
        bound_indexes(self.task.work_memory)
        phases = PhaseTimes(self.report.seconds)
        came = [block for blocks in arrived.blocks.values() for block in blocks]
        new = {
            state: [RowSet.sorted(concat_rows(batches), MAX_TIME)] for state, batches in arrived.rows.items()
        }
        spilled = bool(self.task.admission.spilled)
        old = self._open(came, sparing=spilled)
        there = {block.name for block in came}
        for state in arrived.blocks:
            new.setdefault(state, []).extend(b.rows for b in old[state] if b.meta.name in there)
            old[state] = [block for block in old[state] if block.meta.name not in there]
        phases.mark("open")
        for site in self._sites:
            self._run_site(site, new, old)
        phases.mark("join")
        for writer in self._writers.values():
            self.report.results.extend(writer.close())
        charge_writing(self.report, self._writing_s())
        phases.mark("write results")
        for state in arrived.rows:
            self.report.blocks.append(self._files.write(state, new[state][0].batch, MAX_TIME))
        self.report.blocks += [*came, *self.outbox.waiting()]
        if spilled:
            close_blocks(self.task.storage)
        phases.mark("write blocks")

    def _open(self, came: Sequence[BlockMeta], *, sparing: bool) -> dict[StateId, list[OpenBlock]]:
        """Blocks of earlier batches, of earlier hops of this one, and those that have come."""
        fresh = (b for report in self._before for b in report.blocks if b.name not in report.rewritten)
        owned = np.isin(self._site_of, self._sites)
        return open_blocks(self.task.storage, (*self.task.blocks, *fresh, *came), owned, sparing=sparing)

    def _run_site(self, site: int, new: Rows, old: dict[StateId, list[OpenBlock]]) -> None:
        mine = self._site_of == site
        rows: Rows = {}
        for state, pieces in new.items():
            if found := [within for piece in pieces if len(within := piece.part(mine))]:
                rows[state] = found
        if not rows:
            return
        started, written_s = time.thread_time(), self._writing_s()
        came = np.zeros(PARTITIONS, dtype=np.int64)
        for piece in chain.from_iterable(rows.values()):
            came += partition_counts(piece.int64s(HASH))
        report = SiteReport(site, rows=int(came.sum()))
        pairs = np.zeros(PARTITIONS, dtype=np.int64)
        for work in self.task.work[site]:
            root = work.plan.root
            ended = work.plan.query.name in self.report.failures
            if isinstance(root, StationsNode) and not ended and any(n.state in rows for n in root.rows()):
                pairs += self._run_query(work, rows, old, report)
        report.partitions = tuple((int(p), int(came[p]), int(pairs[p])) for p in np.flatnonzero(came + pairs))
        report.busy_s = time.thread_time() - started - (self._writing_s() - written_s)
        self.report.sites.append(report)

    def _run_query(
        self, work: TrackWork, rows: Rows, old: dict[StateId, list[OpenBlock]], report: SiteReport
    ) -> Int64s:
        """Run a query's stations at a site; returns pairs by partition."""
        query = work.plan.query
        if query.name not in self._writers:
            self._writers[query.name] = writer_of(self.task, query, self.report.slot, self._unique)
        stop = Stop(rows, is_first=False, outbox=self.outbox)
        track = TrackRun(self.task, work, {}, old, report, self._files, stop)
        try:
            track.run(self._writers[query.name])
        except QuotaExceeded as error:
            self.report.failures |= ended(query, str(error))
            track.discard()
        self.report.blocks += [*track.written, *self._files.write_made(track.kept)]
        return track.pairs_by_partition

    def _writing_s(self) -> float:
        return sum(writer.seconds for writer in self._writers.values())
