"""A later hop of a step at one slot: rows that have travelled meet what is kept at their stations."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from typing import TYPE_CHECKING

import numpy as np

from anabranch.engine.reports import SiteReport, SlotReport, charge_shared, charge_writing
from anabranch.engine.step.times.phase_times import PhaseTimes
from anabranch.engine.task.arrival.outbox import Outbox, Stop
from anabranch.engine.task.arrival.parcel import Arrived, Parcel, opened, report_parcel
from anabranch.engine.task.blocks.block_writer import BlockWriter
from anabranch.engine.task.blocks.open_blocks import OpenBlock, close_blocks, open_blocks, rows_kept
from anabranch.engine.task.common_rows import CommonRows
from anabranch.engine.task.coordinated_run import CoordinatedRun, by_partition, whose
from anabranch.engine.task.results.result_files import ResultFiles
from anabranch.engine.task.results.split_writer import bad_value, ended
from anabranch.engine.task.sites.site_work import TrackWork
from anabranch.engine.task.track_run import TrackRun
from anabranch.exchange.address import PARTITIONS
from anabranch.exchange.partition_counts import partition_counts
from anabranch.operators.join.coordinated_join import Aliases
from anabranch.operators.rows.arrays import Int64s
from anabranch.operators.rows.expressions import BAD_VALUE
from anabranch.operators.rows.index_memory import bound_indexes
from anabranch.operators.rows.row_set import RowSet, concat_rows
from anabranch.operators.rows.shared_work import SHARED_WORK
from anabranch.operators.rows.user_functions import install_functions
from anabranch.operators.work_memory import QuotaExceeded, piece_bytes
from anabranch.plan.inputs import HASH, MAX_TIME
from anabranch.plan.logical import Query
from anabranch.plan.nodes import StationsNode
from anabranch.plan.states.state_id import StateId, StateKind
from anabranch.state.block import BlockMeta, unique_part

Rows = dict[StateId, list[RowSet]]
"""By state, in pieces."""
Travelled = dict[int, dict[tuple[str, Aliases], list[RowSet]]]
"""By partition, and by query and references: rows on their path, which no state keeps."""

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
        self.report = SlotReport(slot, hop, task.stamp)
        self._before = reports
        self._sites = task.partition_map.sites_of_slot(slot, task.slots)
        self._site_of = task.partition_map.as_array()
        self._files = BlockWriter(task.storage, stamp=task.stamp, slot=slot, unique=unique)
        plans = (w.plan for site in self._sites for w in task.work[site])
        self._writers = ResultFiles(task, slot, unique, {plan.query.name: plan.query for plan in plans})
        self.outbox = outbox_of(task, self._files)
        """Rows that go on."""

    def run(self, arrived: Arrived) -> None:
        if not arrived:
            return
        bound_indexes(self.task.work_memory)
        install_functions(self.task.told.predicates)
        phases = PhaseTimes(self.report.seconds)
        came = [block for blocks in arrived.blocks.values() for block in blocks]
        rows = {state: RowSet.sorted(concat_rows(b), MAX_TIME) for state, b in arrived.rows.items()}
        new = {state: [its] for state, its in rows.items()}
        spilled = bool(self.task.admission.spilled)
        old = self._open(came, sparing=spilled)
        there = {block.name for block in came}
        for state in arrived.blocks:
            new.setdefault(state, []).extend(b.rows for b in old[state] if b.meta.name in there)
            old[state] = [block for block in old[state] if block.meta.name not in there]
        travelled: Travelled = {}
        for state in [state for state in new if state.kind is StateKind.TRAVELLING]:
            for partition, piece in by_partition(new.pop(state)):
                travelled.setdefault(partition, {}).setdefault(whose(state), []).append(piece)
        phases.mark("open")
        shared_s = SHARED_WORK.seconds
        for site in self._sites:
            self._run_site(site, new, travelled, old)
        charge_shared(self.report, SHARED_WORK.seconds - shared_s, rows_kept(old), self._site_of)
        phases.mark("join")
        self._writers.close(self.report)
        charge_writing(self.report, self._writing_s())
        phases.mark("write results")
        for state, its in rows.items():
            if state in new:
                self.report.blocks.append(self._files.write(state, its.batch, MAX_TIME))
        self.report.blocks += [block for block in came if block.state in new]
        self.report.blocks += self.outbox.waiting()
        if spilled:
            close_blocks(self.task.storage)
        phases.mark("write blocks")

    def _open(self, came: Sequence[BlockMeta], *, sparing: bool) -> dict[StateId, list[OpenBlock]]:
        """Blocks of earlier batches, of earlier hops of this one, and those that have come."""
        fresh = (b for report in self._before for b in report.blocks if b.name not in report.rewritten)
        owned = np.isin(self._site_of, self._sites)
        return open_blocks(self.task.storage, (*self.task.blocks, *fresh, *came), owned, sparing=sparing)

    def _run_site(
        self, site: int, new: Rows, travelled: Travelled, old: dict[StateId, list[OpenBlock]]
    ) -> None:
        mine = self._site_of == site
        rows: Rows = {}
        for state, pieces in new.items():
            if found := [within for piece in pieces if len(within := piece.part(mine))]:
                rows[state] = found
        paths = {partition: its for partition, its in travelled.items() if mine[partition]}
        if not rows and not paths:
            return
        started, written_s, shared_s = time.thread_time(), self._writing_s(), SHARED_WORK.seconds
        came = np.zeros(PARTITIONS, dtype=np.int64)
        for piece in chain.from_iterable(rows.values()):
            came += partition_counts(piece.int64s(HASH))
        for partition, its in paths.items():
            came[partition] += sum(map(len, chain.from_iterable(its.values())))
        report = SiteReport(site, rows=int(came.sum()))
        pairs = np.zeros(PARTITIONS, dtype=np.int64)
        common = CommonRows(self.task.layout.shared)
        for work in self.task.work[site]:
            for track in self._tracks_of(work, rows, paths, old, report):
                if work.plan.query.name not in self.report.failures:
                    track.common = common
                    pairs += self._run_track(track, work.plan.query, report)
        report.partitions = tuple((int(p), int(came[p]), int(pairs[p])) for p in np.flatnonzero(came + pairs))
        others_s = self._writing_s() - written_s + SHARED_WORK.seconds - shared_s
        report.busy_s = time.thread_time() - started - others_s
        self.report.sites.append(report)

    def _tracks_of(
        self,
        work: TrackWork,
        rows: Rows,
        paths: Travelled,
        old: dict[StateId, list[OpenBlock]],
        report: SiteReport,
    ) -> Iterator[TrackRun]:
        """What a query does with rows that have come: at stations, or in each partition of their paths."""
        root, name = work.plan.root, work.plan.query.name
        if isinstance(root, StationsNode) and any(n.state in rows for n in root.rows()):
            stop = Stop(rows, is_first=False, outbox=self.outbox)
            yield TrackRun(self.task, work, {}, old, report, self._files, stop)
        for partition, its in paths.items() if work.until is None else ():
            mine = {names: pieces for (query, names), pieces in its.items() if query == name}
            if mine and partition in work.partitions:
                files, outbox = self._files, self.outbox
                yield CoordinatedRun(self.task, work, partition, {}, old, report, files, outbox, came=mine)

    def _run_track(self, track: TrackRun, query: Query, report: SiteReport) -> Int64s:
        """Run a query at a site; returns pairs by partition."""
        began_s, written_s = time.thread_time(), self._writing_s()
        try:
            track.run(self._writers[query.name])
        except QuotaExceeded as error:
            self.report.failures |= ended(self.task, query, str(error))
            track.discard()
        except BAD_VALUE as error:
            self.report.failures |= ended(self.task, query, bad_value(query.name, error))
            track.discard()
        self.report.blocks += [*track.written, *self._files.write_made(track.kept)]
        if query.name in self.task.coordinated:
            seconds = time.thread_time() - began_s - (self._writing_s() - written_s)
            report.diffused_s[query.name] = report.diffused_s.get(query.name, 0.0) + seconds
        return track.pairs_by_partition

    def _writing_s(self) -> float:
        return self._writers.seconds
