"""A later hop of a step at one slot: rows that have travelled meet what is kept at their stations."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from anabranch.engine.reports import SiteReport, SlotReport, charge_writing
from anabranch.engine.step.phase_times import PhaseTimes
from anabranch.engine.task.block_writer import BlockWriter
from anabranch.engine.task.coordinated_run import CoordinatedRun, by_partition, whose
from anabranch.engine.task.open_blocks import OpenBlock, open_blocks
from anabranch.engine.task.parcel import Parcel, opened, parcels_of, report_parcel
from anabranch.engine.task.result_files import ResultFiles
from anabranch.engine.task.site_work import TrackWork
from anabranch.engine.task.split_writer import bad_value, ended
from anabranch.engine.task.track_run import TrackRun
from anabranch.exchange.address import PARTITIONS
from anabranch.exchange.partition_counts import partition_counts
from anabranch.operators.join.coordinated_join import Aliases
from anabranch.operators.rows.arrays import Int64s
from anabranch.operators.rows.expressions import BAD_VALUE
from anabranch.operators.rows.row_set import RowSet, concat_rows
from anabranch.operators.rows.user_functions import install_functions
from anabranch.operators.work_memory import QuotaExceeded
from anabranch.plan.inputs import HASH, MAX_TIME
from anabranch.plan.logical import Query
from anabranch.plan.nodes import StationsNode
from anabranch.plan.state_id import StateId
from anabranch.state.block import unique_part

if TYPE_CHECKING:
    from anabranch.engine.task.slot_task import SlotTask


def run_hop(
    task: SlotTask, hop: int, slot: int, parcels: Iterable[Parcel], *, attempt: str = "0"
) -> Iterator[Parcel]:
    """Work on what has arrived for a slot in a later hop; yields what leaves, and all reports so far."""
    rows, reports = opened(parcels)
    run = _HopRun(task, hop, slot, unique_part(f"{attempt}.{hop}"), reports)
    yield from run.run(rows)


class _HopRun:
    def __init__(
        self, task: SlotTask, hop: int, slot: int, unique: str, reports: Sequence[SlotReport]
    ) -> None:
        self.task = task
        self.report = SlotReport(slot, hop=hop)
        self._before = reports
        self._sites = task.partition_map.sites_of_slot(slot, task.slots)
        self._site_of = task.partition_map.as_array()
        self._files = BlockWriter(task.storage, stamp=task.stamp, slot=slot, unique=unique)
        plans = (w.plan for site in self._sites for w in task.work[site])
        self._writers = ResultFiles(task, slot, unique, {plan.query.name: plan.query for plan in plans})
        self._sent: dict[StateId, list[pa.RecordBatch]] = {}

    def run(self, arrived: dict[StateId, list[pa.RecordBatch]]) -> Iterator[Parcel]:
        phases = PhaseTimes(self.report.seconds)
        install_functions(self.task.told.predicates)
        new = {state: RowSet.sorted(concat_rows(batches), MAX_TIME) for state, batches in arrived.items()}
        travelled = {owner: new.pop(state) for state in list(new) if (owner := whose(state)) is not None}
        if new or travelled:
            old = self._open()
            phases.mark("open")
            for site in self._sites:
                self._run_site(site, new, travelled, old)
            phases.mark("join")
            self._writers.close(self.report)
            charge_writing(self.report, self._writing_s())
            phases.mark("write results")
            for state, rows in new.items():
                self.report.blocks.append(self._files.write(state, rows.batch, MAX_TIME))
            phases.mark("write blocks")
        yield from parcels_of(self._sent, self.task.slot_map())
        for report in (*self._before, self.report):
            yield report_parcel(self.report.slot, report)

    def _open(self) -> dict[StateId, list[OpenBlock]]:
        """Blocks of earlier batches, and of earlier hops of this one."""
        fresh = (b for report in self._before for b in report.blocks if b.name not in report.rewritten)
        owned = np.isin(self._site_of, self._sites)
        return open_blocks(self.task.storage, (*self.task.blocks, *fresh), owned)

    def _run_site(
        self,
        site: int,
        new: dict[StateId, RowSet],
        travelled: dict[tuple[str, Aliases], RowSet],
        old: dict[StateId, list[OpenBlock]],
    ) -> None:
        mine = self._site_of == site
        rows = {state: found for state, r in new.items() if len(found := r.within(mine))}
        came = {owner: found for owner, r in travelled.items() if len(found := r.within(mine))}
        if not rows and not came:
            return
        started, written_s = time.thread_time(), self._writing_s()
        report = SiteReport(site, rows=sum(map(len, (*rows.values(), *came.values()))))
        pairs = np.zeros(PARTITIONS, dtype=np.int64)
        for work in self.task.work[site]:
            root = work.plan.root
            ended = work.plan.query.name in self.report.failures
            if isinstance(root, StationsNode) and not ended and any(n.state in rows for n in root.rows()):
                track = TrackRun(self.task, work, {}, old, report, self._files, arrived=rows)
                pairs += self._run_track(track, work.plan.query, report)
            for track in self._on_paths(work, came, old, report):
                if work.plan.query.name not in self.report.failures:
                    pairs += self._run_track(track, work.plan.query, report)
        arrived = [partition_counts(r.int64s(HASH)) for r in (*rows.values(), *came.values())]
        count = np.sum(arrived, axis=0)
        report.partitions = tuple(
            (int(p), int(count[p]), int(pairs[p])) for p in np.flatnonzero(count + pairs)
        )
        report.busy_s = time.thread_time() - started - (self._writing_s() - written_s)
        self.report.sites.append(report)

    def _on_paths(
        self,
        work: TrackWork,
        came: dict[tuple[str, Aliases], RowSet],
        old: dict[StateId, list[OpenBlock]],
        report: SiteReport,
    ) -> Iterator[CoordinatedRun]:
        """A query with coordinated routing, in each partition that rows have come to."""
        name = work.plan.query.name
        mine = {names: rows for (query, names), rows in came.items() if query == name}
        if mine and work.until is None:
            for partition, its in by_partition(mine):
                if partition in work.partitions:
                    yield CoordinatedRun(self.task, work, partition, {}, old, report, self._files, came=its)

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
        for state, batches in track.sent.items():
            self._sent.setdefault(state, []).extend(batches)
        if query.name in self.task.coordinated:
            seconds = time.thread_time() - began_s - (self._writing_s() - written_s)
            report.diffused_s[query.name] = report.diffused_s.get(query.name, 0.0) + seconds
        return track.pairs_by_partition

    def _writing_s(self) -> float:
        return self._writers.seconds
