"""What one Spark task does in a batch: work through its sites, one after the other.

Nothing here knows Spark: rows come in as Arrow batches, a report goes out, blocks and staged
results are files. The same function runs in tests without a JVM.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from anabranch.adapt.eddy.tree_choice import LOOK_EVERY
from anabranch.engine.reports import SiteReport, SlotReport
from anabranch.engine.step.manifests.shipments import folder_of
from anabranch.engine.step.times.phase_times import PhaseTimes
from anabranch.engine.task.arrival.admission import admit, split_spilled
from anabranch.engine.task.arrival.arrivals import Arrivals
from anabranch.engine.task.arrival.heavy_keys import heavy_keys
from anabranch.engine.task.arrival.key_sketches import key_sketches
from anabranch.engine.task.arrival.parcel import Parcel, report_parcel
from anabranch.engine.task.arrival.readdress import readdress
from anabranch.engine.task.arrival.split_rows import stored_rows
from anabranch.engine.task.blocks.block_slices import ranges_within, slice_block
from anabranch.engine.task.blocks.block_writer import BlockWriter
from anabranch.engine.task.blocks.draining_rows import forget_gathered
from anabranch.engine.task.blocks.open_blocks import OpenBlock, close_blocks, open_blocks, opened
from anabranch.engine.task.evaluation import Evaluation
from anabranch.engine.task.home_parts import add_home, at_home, homes_in, over_all, rows_by_home
from anabranch.engine.task.hop_run import outbox_of, run_hops_inside
from anabranch.engine.task.hot_groups import with_answering_lanes
from anabranch.engine.task.results.staging import write_dead_letters
from anabranch.engine.task.sites.site_work import join_states
from anabranch.exchange.partition_set import PartitionSet, union
from anabranch.operators.group.newest_rows import Trim
from anabranch.operators.group.windows.window_rows import Condense
from anabranch.operators.rows.index_memory import bound_indexes
from anabranch.operators.rows.row_set import RowSet, concat_rows, rows_in
from anabranch.operators.rows.user_functions import install_functions
from anabranch.plan.inputs import MAX_TIME, TIME
from anabranch.plan.states.state_id import StateId, StateKind
from anabranch.state.block import BlockMeta, unique_part

if TYPE_CHECKING:
    from anabranch.engine.task.slot_task import SlotTask


def run_first_hop(
    task: SlotTask, slot: int, batches: Iterable[pa.RecordBatch], *, attempt: str = "0"
) -> Iterator[Parcel]:
    """Work through the sites of `slot` on the rows of one batch; yields what leaves, and the report."""
    whole, at_homes = task, dict[int, list[pa.RecordBatch]]()
    if task.homes:
        batches, at_homes = rows_by_home(task, batches)
        task = over_all(task)
    run = _SlotRun(task, slot, unique_part(attempt))
    reports = [run.run(batches)]
    for home in homes_in(whole, slot) if whole.homes else ():
        part = _SlotRun(at_home(whole, home), 0, unique_part(f"{attempt}.{home}"))
        add_home(reports[0], part.run(at_homes.get(home, ())), home)
    outbox = run.outbox
    if task.slots == 1:
        reports, outbox = run_hops_inside(task, slot, outbox, reports, attempt=attempt)
    yield from outbox.parcels()
    for report in reports:
        yield report_parcel(slot, report)


class _SlotRun:
    def __init__(self, task: SlotTask, slot: int, unique: str) -> None:
        self.task = task
        self.slot = slot
        self.unique = unique
        self.report = SlotReport(slot, stamp=task.stamp)
        self.sites = task.partition_map.sites_of_slot(slot, task.slots)
        self.site_of = task.partition_map.as_array()
        self.owned = np.isin(self.site_of, self.sites)
        self.at_work = (
            self.owned | union(w.partitions for site in self.sites for w in task.work[site]).flags()
        )
        """Partitions of this slot, and those of others on which tracks of its sites end."""
        self._storage = task.storage
        self._blocks = BlockWriter(self._storage, stamp=task.stamp, slot=slot, unique=unique)
        self._phases = PhaseTimes(self.report.seconds)
        self.outbox = outbox_of(task, self._blocks)

    def run(self, batches: Iterable[pa.RecordBatch]) -> SlotReport:
        bound_indexes(self.task.work_memory)
        install_functions(self.task.told.predicates)
        arrived = [b for b in batches if b.num_rows]
        self._phases.mark("receive")
        arrivals = Arrivals(self.task, self.owned, self.at_work)
        new = arrivals.sort_out(arrived)
        self.report.streams, self.report.arrived = arrivals.streams, arrivals.arrived
        self._phases.mark("sort")
        spilled = bool(self.task.admission.spilled)
        moved = self._readdress()
        split, answering = with_answering_lanes(self.task, self.owned, arrivals.split)
        reached = self.at_work | answering.flags()
        old = open_blocks(
            self._storage, (*self.task.blocks, *moved), reached, sparing=spilled, beside=self.task.beside
        )
        new, waiting = self._admit(new, old)
        entering = self._enter_joined(old)
        self._phases.mark("open")
        work = Evaluation(
            self.task,
            self.slot,
            self.unique,
            self.at_work,
            self.report,
            self._blocks,
            self.outbox,
            entering,
        )
        kept = work.run(new, old, self._take_over, split)
        if self.task.batch % LOOK_EVERY == 0 and arrived:
            self.report.keys = key_sketches(self.task.sketched, new)
        if self.task.looks_for_hot_keys:
            self.report.heavy = heavy_keys(self.task, new, split, kept)
        self.report.blocks += self.outbox.waiting()
        self._phases.mark("join")
        work.write_results()
        forget_gathered(self._storage, self.task.batch)
        self._phases.mark("write results")
        self._keep(new, kept, stored_rows(split))
        for source, rows in waiting.items():
            self._keep_owned(self.task.layout.inputs[source].state.waiting, rows)
        for joined, entered in entering.items():
            self.report.blocks.append(self._blocks.write(joined, entered.batch, MAX_TIME))
        self._phases.mark("write blocks")
        self._compact()
        if spilled:  # keep no more mapped than the sites may work on
            close_blocks(self._storage)
        self._phases.mark("compact")
        if arrivals.dead:
            # No query's files have a name that begins so, whatever the query is called.
            name = f"{self.task.stamp}-s{self.slot:03d}-dead.letters-{self.unique}.parquet"
            rows = pa.concat_tables(arrivals.dead)
            self.report.dead_letters.append(write_dead_letters(self._storage, rows, name=name))
        return self.report

    def _readdress(self) -> list[BlockMeta]:
        """Take over rows of joins that were laid out otherwise before this step."""
        moved = readdress(
            self.task.tracks.relaid,
            self.task.relaid,
            storage=self._storage,
            owned=self.owned,
            files=self._blocks,
        )
        self.report.blocks += (found := list(moved))
        return found

    def _admit(
        self, new: dict[int, RowSet], old: Mapping[StateId, list[OpenBlock]]
    ) -> tuple[dict[int, RowSet], dict[int, pa.RecordBatch]]:
        """Rows that enter now, those that waited among them, and rows that wait for a later batch."""
        new, passing_by = self._coordinated(new)
        now, later = self._admitted(new, old)
        for source, rows in passing_by.items():
            now[source] = RowSet.merged([rows.batch, *(r.batch for r in (now.get(source),) if r)], TIME)
        return now, later

    def _coordinated(self, new: dict[int, RowSet]) -> tuple[dict[int, RowSet], dict[int, RowSet]]:
        """New rows without those on a path, which never wait: it leads where others are in this batch."""
        rest, apart = dict(new), {}
        for routed in self.task.layout.queries:
            if (routes := self.task.coordinated.get(routed.query.name)) is None:
                continue
            here = routes.stored().flags()
            for source in routed.inputs:
                if (rows := rest.get(source)) is not None:
                    apart[source] = rows.within(here)
                    rest[source] = rows.within(~here)
        rest = {source: rows for source, rows in rest.items() if len(rows)}
        return rest, {source: rows for source, rows in apart.items() if len(rows)}

    def _admitted(
        self, new: dict[int, RowSet], old: Mapping[StateId, list[OpenBlock]]
    ) -> tuple[dict[int, RowSet], dict[int, pa.RecordBatch]]:
        waiting = {b[0].meta.state.entered: b for b in old.values() if b[0].meta.state.is_waiting}
        waited = {
            source.id: [RowSet(rows_in(b.rows.batch, self.at_work)) for b in waiting[source.state]]
            for source in (self.task.layout.inputs if waiting else ())
            if source.state in waiting
        }
        if self.task.admission.is_open and not waited:
            return new, {}
        # A query without state has no reason to wait.
        states = {source.id: source.state for source in self.task.layout.inputs}
        passing = {s: r for s, r in new.items() if s not in waited and states[s] not in self.task.stateful}
        # Two slots that work on the same rows must agree on which enter, without seeing each other's.
        site_of = np.where(self._leaving().flags(), -1, self.site_of)
        now, later = admit(
            {source: rows for source, rows in new.items() if source not in passing},
            waited,
            admission=self.task.admission,
            site_of=site_of,
            batch=self.task.batch,
            unhindered=frozenset(i for i, state in states.items() if state not in self.task.memory.joined),
        )
        return now | passing, later

    def _enter_joined(self, old: Mapping[StateId, list[OpenBlock]]) -> dict[StateId, RowSet]:
        """Joined rows that have waited for their partitions, by state; some of them wait again."""
        entering: dict[StateId, RowSet] = {}
        someone_waits = any(state.is_waiting for state in old)
        for state in self.task.stateful if someone_waits else ():
            if state.kind is not StateKind.STATION or state.waiting not in old:
                continue
            pieces = [rows_in(block.rows.batch, self.owned) for block in old[state.waiting]]
            now, later = split_spilled(concat_rows(pieces), self.task.admission.spilled)
            if later is not None:
                rows = RowSet.sorted(later, MAX_TIME).batch
                self.report.blocks.append(self._blocks.write(state.waiting, rows, MAX_TIME))
            if now.num_rows:
                entering[state] = RowSet.sorted(now, MAX_TIME)
        return entering

    def _leaving(self) -> PartitionSet:
        """Partitions on which some track ends."""
        return union(w.partitions for work in self.task.work.values() for w in work if w.until is not None)

    def _take_over(self, report: SiteReport) -> float:
        """Copy what has moved to a site into blocks of its own; returns the seconds that senders pay.

        In this batch the site still reads the slices where they were: the copies are for the next.
        """
        began, packing_s = time.thread_time(), 0.0
        for shipment in self.task.shipments:
            if shipment.target != report.site:
                continue
            started = time.thread_time()
            pieces = shipment.pack(opened(self._storage))
            seconds = time.thread_time() - started
            packing_s += seconds
            self.report.packing_s[shipment.source] = self.report.packing_s.get(shipment.source, 0.0) + seconds
            time_column = MAX_TIME if MAX_TIME in pieces[0].schema.names else TIME
            rows = RowSet.merged(pieces, time_column).batch
            folder = folder_of(report.site)
            block = self._blocks.write(shipment.state, rows, time_column, shipment.batches, folder)
            self._rewrite(block)
            report.copied_rows += rows.num_rows
            report.copied_bytes += block.bytes
        report.copy_s = time.thread_time() - began - packing_s
        return packing_s

    def _keep(
        self,
        new: Mapping[int, RowSet],
        kept: Mapping[StateId, list[pa.RecordBatch]],
        split: Mapping[int, list[RowSet]],
    ) -> None:
        for source in new.keys() | split.keys():
            state = self.task.layout.inputs[source].state
            if state in self.task.stateful and source not in split:
                self._keep_owned(state, new[source].batch)
            elif state in self.task.stateful:
                mine = [rows_in(new[source].batch, self.owned)] if source in new else []
                rows = RowSet.merged([*mine, *(r.batch for r in split[source])], TIME)
                self.report.blocks.append(self._blocks.write(state, rows.batch, TIME))
        self.report.blocks += self._blocks.write_made(kept)

    def _keep_owned(self, state: StateId, rows: pa.RecordBatch) -> None:
        """Keep rows of a stream; those that drain here are kept by their owner."""
        if (owned := rows_in(rows, self.owned)).num_rows:
            self.report.blocks.append(self._blocks.write(state, owned, TIME))

    def _partitions_in(self, state: StateId) -> np.ndarray:
        """Partitions whose rows in a state are read here: those of a track that ends, where it ends."""
        mine = self.owned.copy()
        for site, work in self.task.work.items():
            for item in work:
                if item.until is not None and state in join_states(item.plan):
                    mine[item.partitions.flags()] = site in self.sites
        return mine

    def _compact(self) -> None:
        """Merge groups of blocks, taking from each the partitions that are now this slot's."""
        metas = {b.name: b for b in self.task.blocks}
        trims = self.task.trims if self.task.merges else {}
        for group in self.task.merges:
            state = metas[group[0]].state
            mine = self._partitions_in(state)
            known = opened(self._storage)
            blocks = [known[name] for name in group if name in known]
            span = (min(metas[n].batch for n in group), max(metas[n].last_batch for n in group))
            for partitions in ranges_within(blocks, mine, self.task.memory.most_to_merge(state)):
                self._merge(state, blocks, partitions, span, trims.get(state))

    def _merge(
        self,
        state: StateId,
        blocks: Iterable[OpenBlock],
        partitions: np.ndarray,
        span: tuple[int, int],
        trim: Trim | Condense | None,
    ) -> None:
        """Write one block of the rows that several have of some partitions."""
        found = (slice_block(block, partitions) for block in blocks)
        if pieces := [piece.rows.batch for piece in found if piece is not None]:
            time_column = MAX_TIME if MAX_TIME in pieces[0].schema.names else TIME
            merged = RowSet.merged(pieces, time_column)
            rows = merged.batch if trim is None else trim.applied_to(merged)
            if rows.num_rows:
                self._rewrite(self._blocks.write(state, rows, time_column, span))

    def _rewrite(self, block: BlockMeta) -> None:
        self.report.blocks.append(block)
        self.report.rewritten.add(block.name)
