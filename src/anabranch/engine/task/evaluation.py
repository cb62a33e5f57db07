"""The queries' part of a slot's batch: every track of every site, and who is charged for what."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from itertools import chain
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from anabranch.adapt.measures.statistics import sum_by_site
from anabranch.engine.reports import SiteReport, SlotReport, charge_shared, charge_writing
from anabranch.engine.step.manifests.retention import states_of
from anabranch.engine.task.arrival.outbox import Outbox, Stop
from anabranch.engine.task.arrival.split_rows import SplitRows
from anabranch.engine.task.blocks.block_slices import slice_block
from anabranch.engine.task.blocks.block_writer import BlockWriter
from anabranch.engine.task.blocks.open_blocks import OpenBlock, rows_kept
from anabranch.engine.task.common_rows import CommonRows
from anabranch.engine.task.coordinated_run import CoordinatedRun
from anabranch.engine.task.hot_groups import lane_shares
from anabranch.engine.task.results.result_files import ResultFiles
from anabranch.engine.task.results.split_writer import bad_value, ended
from anabranch.engine.task.sites.site_groups import SiteGroup, group_sites
from anabranch.engine.task.sites.site_shares import SiteShares
from anabranch.engine.task.sites.site_work import TrackWork
from anabranch.engine.task.track_run import Part, TrackRun
from anabranch.exchange.address import PARTITIONS
from anabranch.exchange.partition_counts import partition_counts
from anabranch.exchange.partition_set import PartitionSet
from anabranch.operators.rows.arrays import Int64s
from anabranch.operators.rows.expressions import BAD_VALUE
from anabranch.operators.rows.row_set import RowSet, int64s
from anabranch.operators.rows.shared_work import SHARED_WORK
from anabranch.operators.work_memory import QuotaExceeded, piece_bytes
from anabranch.plan.inputs import HASH, RoutedQuery
from anabranch.plan.local_plan import LocalPlan, compile_plan
from anabranch.plan.states.state_id import StateId
from anabranch.plan.tree import probe_from

if TYPE_CHECKING:
    from anabranch.engine.task.slot_task import SlotTask

TakeOver = Callable[[SiteReport], float]
"""Copies what has moved to a site; returns the seconds that are not the site's."""
Blocks = Mapping[StateId, list[OpenBlock]]


class Evaluation:
    """Runs the tracks of a slot's sites.

    Parameters
    ----------
    at_work
        Partitions of which the slot has rows.
    report
        Where sites, results and failures are told.
    blocks
        Writes rows that joins keep, where they are too many for memory.
    outbox
        Where rows go on to other stations.
    entering
        Joined rows that have waited for their partitions and enter now, by state.
    """

    def __init__(
        self,
        task: SlotTask,
        slot: int,
        unique: str,
        at_work: np.ndarray,
        report: SlotReport,
        blocks: BlockWriter,
        outbox: Outbox,
        entering: Mapping[StateId, RowSet],
    ) -> None:
        self.task = task
        self._outbox = outbox
        self.report = report
        self._blocks = blocks
        self._sites = task.partition_map.sites_of_slot(slot, task.slots)
        self._site_of = task.partition_map.as_array()
        self._at_work = at_work
        plans = {w.plan.query.name: w.plan for site in self._sites for w in task.work[site]}
        self._writers = ResultFiles(task, slot, unique, {name: p.query for name, p in plans.items()})
        self._passing = {name for name, plan in plans.items() if not states_of([plan])}
        """Queries without state."""
        self._kept: dict[StateId, list[pa.RecordBatch]] = {}
        self._entering = entering
        self._kept_bytes = 0
        """Of rows that tracks have made and that are in no file yet."""
        self._arrived: dict[int, Int64s] = {}
        """By input, new rows of each partition."""

    def run(
        self,
        new: Mapping[int, RowSet],
        old: Blocks,
        take_over: TakeOver,
        split: Mapping[int, SplitRows] | None = None,
    ) -> dict[StateId, list[pa.RecordBatch]]:
        """Run every track of every site, and the hot keys; returns the new rows of intermediate states."""
        held = {state: blocks for state, blocks in old.items() if not blocks[0].meta.state.is_waiting}
        self._arrived = {source: partition_counts(int64s(r.batch, HASH)) for source, r in new.items()}
        sites = self.task.partition_map.sites
        shares = SiteShares(self._site_of, sites, self._arrived, held)
        rows = sum_by_site(_total(self._arrived.values()), self._site_of, sites)
        shared_s = SHARED_WORK.seconds
        for group in group_sites(self._sites, self.task.work, rows, apart=self._apart()):
            report = self._run_group(group, new, held, take_over)
            self.report.sites += [report] if len(group.sites) == 1 else shares.of(group, report)
        kept = rows_kept(held)
        charge_shared(self.report, SHARED_WORK.seconds - shared_s, kept, self._site_of)
        for lane, its in (split or {}).items():
            self._run_split(lane, its, held)
        self._weigh(chain.from_iterable(held.values()))
        return self._kept

    def _run_split(self, lane: int, split: SplitRows, held: Blocks) -> None:
        """Let the origins of a lane probe, and answer for hot groups, for every query that reads them."""
        report = next(r for r in self.report.sites if r.site == self._site_of[lane])
        started, written_s = time.thread_time(), self._writing_s()
        plans = {w.plan.query.name: w.plan for w in self.task.work[report.site] if w.until is None}
        for routed in self.task.layout.queries:
            query = routed.query.name
            if query in plans and query not in self.report.failures:
                pairs = report.pairs
                for track in self._split_tracks(routed, plans[query], lane, split, held, report):
                    self._run_track(track, query, report)
                if report.pairs > pairs:
                    report.split_pairs[query] = report.split_pairs.get(query, 0) + report.pairs - pairs
        report.rows += sum(map(len, split.origins.values()))
        seconds = time.thread_time() - started - (self._writing_s() - written_s)
        report.busy_s += seconds
        report.split_s += seconds

    def _split_tracks(
        self,
        routed: RoutedQuery,
        plan: LocalPlan,
        lane: int,
        split: SplitRows,
        held: Blocks,
        report: SiteReport,
    ) -> Iterator[TrackRun]:
        """What a query has to do at a lane: join hot keys, take in rows of hot groups, answer for these."""
        layout, hot, files = self.task.layout, self.task.hot, self._blocks
        states = [layout.inputs[i].state for i in routed.inputs]
        largest = {state: key.largest for key in hot for state in key.states}
        part, rows, window = Part.SPLIT, split.origins, plan.window
        if len(states) > 1:
            if rows and largest.keys() >= set(states):
                probing = compile_plan(layout, routed, probe_from(routed.graph, states, largest[states[0]]))
                work = TrackWork(probing, split.homes)
                yield TrackRun(self.task, work, split.met, held, report, files, part=part, origins=rows)
            part, rows = Part.GROUPS, {}
        elif window is not None and window.grouped is not None and routed.inputs[0] in rows:
            yield TrackRun(self.task, TrackWork(plan, split.homes), rows, held, report, files, part=part)
        if window is not None and window.grouped is None:
            for share, homes in lane_shares(hot, window.state, lane):
                work = TrackWork(plan, homes)
                yield TrackRun(self.task, work, rows, held, report, files, part=part, share=share)
                rows = {}  # counted once

    def write_results(self) -> None:
        """Make the results durable, and charge the sites for it."""
        self._writers.close(self.report)
        passing_s = sum(self._writers.seconds_of(name) for name in self._passing)
        charge_writing(self.report, self._writing_s() - passing_s, passing_s=passing_s)

    def _apart(self) -> Collection[int]:
        """Sites that are worked on one by one.

        Those that take rows over, and all where memory is short, or where joins go partition by partition
        anyway, so that what each site takes need not be guessed.
        """
        if self.task.admission.spilled or self.task.coordinated:
            return self._sites
        return {shipment.target for shipment in self.task.shipments}

    def _run_group(
        self, group: SiteGroup, new: Mapping[int, RowSet], held: Blocks, take_over: TakeOver
    ) -> SiteReport:
        """Run the tracks of some sites as if they were one; leaves out what is made for all sites."""
        started, written_s, shared_s = time.thread_time(), self._writing_s(), SHARED_WORK.seconds
        report = SiteReport(group.sites[0])
        mine = np.isin(self._site_of, group.sites)
        rows = self._rows_of(mine, new)
        blocks = self._in_memory(mine, held)
        report.rows = sum(len(r) for r in rows.values())
        pairs = np.zeros(PARTITIONS, dtype=np.int64)
        packing_s = take_over(report)
        common = CommonRows(self.task.layout.shared)
        for work in group.work:
            its = work.partitions.flags()
            its_rows = rows if (its == mine).all() else self._rows_of(its, new)
            for track in self._tracks_of(work, its_rows, blocks, report):
                if work.plan.query.name not in self.report.failures:
                    track.common = common
                    self._run_track(track, work.plan.query.name, report)
                    common.give(track.made, track.rebuilt)
                    pairs += track.pairs_by_partition
        came = _total(count for source, count in self._arrived.items() if self._is_kept(source)) * mine
        active = np.flatnonzero(came + pairs)
        report.partitions = tuple((int(p), int(came[p]), int(pairs[p])) for p in active)
        others_s = packing_s + self._writing_s() - written_s + SHARED_WORK.seconds - shared_s
        report.busy_s = time.thread_time() - started - others_s
        return report

    def _tracks_of(
        self, work: TrackWork, rows: Mapping[int, RowSet], blocks: Blocks, report: SiteReport
    ) -> Iterator[TrackRun]:
        """A track as it is run: as one, or by partition where copies of rows must not meet twice."""
        table = self.task.aligned.get(work.plan.query.name)
        routes = self.task.coordinated.get(work.plan.query.name)
        if table is None and routes is None:
            yield TrackRun(self.task, work, rows, blocks, report, self._blocks, self._stop(work))
            return
        if work.plan.window is not None:
            yield TrackRun(self.task, work, {}, blocks, report, self._blocks, part=Part.GROUPS)
        for partition in () if table is None else table.used() & work.partitions:
            apart = work.within(PartitionSet.of([partition]))
            its = _within(rows, apart.partitions)
            yield TrackRun(self.task, apart, its, blocks, report, self._blocks, part=Part.JOIN)
        if routes is not None and work.until is None:
            for partition in routes.stored() & work.partitions:
                if its := _within(rows, PartitionSet.of([partition])):
                    files, outbox = self._blocks, self._outbox
                    yield CoordinatedRun(self.task, work, partition, its, blocks, report, files, outbox)

    def _stop(self, work: TrackWork) -> Stop:
        """What arrives at the stations of a track's partitions beside new rows."""
        mine = work.partitions.flags()
        found = {
            node.state: [self._entering[node.state].within(mine)]
            for node in work.plan.nodes()
            if node.state in self._entering
        }
        return Stop(found, outbox=self._outbox)

    def _run_track(self, track: TrackRun, query: str, report: SiteReport) -> None:
        writer = self._writers[query]
        began_s, written_s, results = time.thread_time(), writer.seconds, report.results
        try:
            track.run(writer)
        except QuotaExceeded as error:
            self.report.failures |= ended(self.task, writer.query, str(error))
            track.discard()
        except BAD_VALUE as error:
            self.report.failures |= ended(self.task, writer.query, bad_value(query, error))
            track.discard()
        self.report.query_s[query] = self.report.query_s.get(query, 0.0) + time.thread_time() - began_s
        self._take_kept(track)
        if query in self.task.aligned or query in self.task.coordinated:
            seconds = time.thread_time() - began_s - (writer.seconds - written_s)
            report.diffused_s[query] = report.diffused_s.get(query, 0.0) + seconds
        if query in self._passing:
            report.passing_s += time.thread_time() - began_s - (writer.seconds - written_s)
            report.passing_results += report.results - results

    def _take_kept(self, track: TrackRun) -> None:
        """Put what a track keeps with what others do, which becomes one block, unless it is too much."""
        self.report.blocks += track.written
        for state, batches in track.kept.items():
            self._kept.setdefault(state, []).extend(batches)
            self._kept_bytes += sum(batch.nbytes for batch in batches)
        if self._kept_bytes > piece_bytes(self.task.work_memory):
            self.report.blocks += self._blocks.write_made(self._kept)
            self._kept.clear()
            self._kept_bytes = 0

    def _is_kept(self, source: int) -> bool:
        """Whether some state keeps the rows of an input, or what is made of them."""
        return not self.task.layout.inputs[source].stateless

    def _weigh(self, blocks: Iterable[OpenBlock]) -> None:
        """Tell the state that each site works on, and what answering its queries holds beside it."""
        held, size = self.task.memory.held, np.zeros(PARTITIONS)
        for block in blocks:
            size += block.rows_of * (block.meta.bytes / block.meta.rows + held.get(block.meta.state, 0))
        size[sorted(self.task.admission.spilled)] = 0
        by_site = sum_by_site(size, self._site_of, self.task.partition_map.sites)
        for report in self.report.sites:
            report.state_bytes = round(by_site[report.site])

    def _in_memory(self, mine: np.ndarray, blocks: Blocks) -> Blocks:
        """The blocks, of those that aggregates read the slices of partitions that are not spilled."""
        if not self.task.admission.spilled:
            return blocks
        here, found = mine.copy(), dict(blocks)
        here[sorted(self.task.admission.spilled)] = False
        for state in self.task.memory.grouped & blocks.keys():
            slices = (slice_block(block, here) for block in blocks[state])
            found[state] = [piece for piece in slices if piece is not None]
        return found

    def _rows_of(self, mine: np.ndarray, new: Mapping[int, RowSet]) -> dict[int, RowSet]:
        """New rows of some partitions, by input."""
        if (mine >= self._at_work).all():
            return dict(new)
        return _within(new, PartitionSet.where(mine))

    def _writing_s(self) -> float:
        return self._writers.seconds


def _within(rows: Mapping[int, RowSet], partitions: PartitionSet) -> dict[int, RowSet]:
    """Rows of some partitions, by input."""
    found = {source: r.within(partitions.flags()) for source, r in rows.items()}
    return {source: r for source, r in found.items() if len(r)}


def _total(counts: Iterable[Int64s]) -> Int64s:
    return sum(counts, np.zeros(PARTITIONS, dtype=np.int64))
