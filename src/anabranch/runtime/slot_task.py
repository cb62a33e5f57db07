"""What one Spark task does in a batch: work through its sites, one after the other.

Nothing here knows Spark: rows come in as Arrow batches, a report goes out, blocks and staged
results are files. The same function runs in tests without a JVM.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from anabranch.exchange.partition_map import PARTITIONS, PartitionMap, partition_of
from anabranch.operators.final_rows import Emission
from anabranch.operators.newest_rows import Trim, keep_newest
from anabranch.operators.operator import Operator
from anabranch.operators.partition_counts import partition_counts
from anabranch.operators.rows import RowSet, concat_rows, int64s
from anabranch.operators.window_aggregate import WindowAggregate
from anabranch.operators.window_distinct import WindowDistinct
from anabranch.operators.window_join import QuotaExceeded, WindowJoin
from anabranch.plan.layout import DEADLINE, HASH, MAX_TIME, TIME, Layout
from anabranch.plan.local_plan import LocalPlan
from anabranch.runtime.admission import OPEN, Admission, admit, is_waiting, waiting_state
from anabranch.runtime.arrivals import Arrivals
from anabranch.runtime.laps import Laps
from anabranch.runtime.reports import SiteReport, SlotReport
from anabranch.runtime.staging import ResultWriter, write_dead_letters
from anabranch.runtime.wire import Wire
from anabranch.state.block import BlockMeta, unique_part, write_block
from anabranch.state.block_cache import block_cache, open_block
from anabranch.state.layout import BLOCKS


@dataclass(frozen=True, slots=True)
class SlotTask:
    """Everything the slots of one batch need to know beside their rows."""

    checkpoint: Path
    batch: int
    slots: int
    partition_map: PartitionMap
    layout: Layout
    wire: Wire
    streams: tuple[str, ...]
    earliest: tuple[int, ...]
    """Per input the watermark of its stream: rows before it are late."""
    latest: int
    """Rows after this time are too far ahead."""
    plans: Mapping[int, tuple[LocalPlan, ...]]
    """Local plans by site."""
    stateful: frozenset[str]
    """States whose rows must be kept."""
    blocks: tuple[BlockMeta, ...]
    merges: tuple[tuple[str, ...], ...]
    """Groups of blocks to compact in passing."""
    quota_pairs: int
    admission: Admission = OPEN
    spillable: frozenset[str] = frozenset()
    """States of which spilled partitions are left alone; those of aggregates are always read."""
    emissions: Mapping[str, Emission] = field(default_factory=dict)
    """By query that emits rows once they are final: which are, in this step."""
    trims: Mapping[str, Trim] = field(default_factory=dict)
    """By state of which the newest rows of each group are enough."""


@dataclass(frozen=True, slots=True)
class _OpenBlock:
    meta: BlockMeta
    rows: RowSet
    partitions: int
    """Bit set of the partitions it has rows of."""
    rows_of: np.ndarray
    """Rows by partition."""


_opened: dict[str, _OpenBlock] = {}
"""Blocks this worker process has open, with the indexes it has built on them."""


def run_slot(
    task: SlotTask, slot: int, batches: Iterable[pa.RecordBatch], *, attempt: str = "0"
) -> SlotReport:
    """Work through the sites of `slot` on the rows of one batch."""
    return _SlotRun(task, slot, unique_part(attempt)).run(batches)


class _SlotRun:
    def __init__(self, task: SlotTask, slot: int, unique: str) -> None:
        self.task = task
        self.slot = slot
        self.unique = unique
        self.report = SlotReport(slot)
        self.sites = task.partition_map.sites_of_slot(slot, task.slots)
        self.site_of = task.partition_map.as_array()
        self._laps = Laps(self.report.seconds)

    def run(self, batches: Iterable[pa.RecordBatch]) -> SlotReport:
        arrived = [b for b in batches if b.num_rows]
        self._laps.mark("receive")
        arrivals = Arrivals(self.task, self.slot)
        new = arrivals.sort_out(arrived)
        self.report.streams = arrivals.streams
        self._laps.mark("sort")
        old = self._open_blocks()
        new, waiting = self._admit(new, old)
        self._laps.mark("open")
        kept = self._evaluate(new, old)
        self._laps.mark("write results")
        self._keep(new, kept)
        for source, rows in waiting.items():
            self._write_block(waiting_state(self.task.layout.inputs[source].state), rows, TIME)
        self._laps.mark("write blocks")
        self._compact()
        if self.task.admission.spilled:  # keep no more mapped than the sites may work on
            _opened.clear()
            block_cache(self.task.checkpoint / BLOCKS).retain(())
        self._laps.mark("compact")
        if arrivals.dead:
            name = f"dead-b{self.task.batch:010d}-s{self.slot:03d}-{self.unique}.parquet"
            rows = pa.concat_tables(arrivals.dead)
            self.report.dead_letters.append(write_dead_letters(self.task.checkpoint, rows, name=name))
        return self.report

    def _open_blocks(self) -> dict[str, list[_OpenBlock]]:
        """Blocks by state, of which some partition belongs to this slot."""
        for name in _opened.keys() - {b.name for b in self.task.blocks}:
            del _opened[name]
        mine = sum(self._partitions_of(site) for site in self.sites)
        by_state: dict[str, list[_OpenBlock]] = {}
        for meta in self.task.blocks:
            block = _opened.get(meta.name)
            partitions = block.partitions if block else sum(1 << p for p, _ in meta.partitions)
            if partitions & mine:
                if block is None:
                    rows = RowSet(open_block(self.task.checkpoint / BLOCKS, meta))
                    rows_of = np.zeros(PARTITIONS, dtype=np.int64)
                    rows_of[[p for p, _ in meta.partitions]] = [n for _, n in meta.partitions]
                    block = _opened[meta.name] = _OpenBlock(meta, rows, partitions, rows_of)
                by_state.setdefault(meta.state, []).append(block)
        return by_state

    def _admit(
        self, new: dict[int, RowSet], old: Mapping[str, list[_OpenBlock]]
    ) -> tuple[dict[int, RowSet], dict[int, pa.RecordBatch]]:
        """Rows that enter now, those that waited among them, and rows that wait for a later batch."""
        owned = np.isin(self.site_of, self.sites)
        waited = {}
        for source in self.task.layout.inputs:
            blocks = old.get(waiting_state(source.state), ())
            if pieces := [_rows_in(b.rows.batch, owned) for b in blocks]:
                waited[source.id] = [RowSet(p) for p in pieces]
        if self.task.admission.is_open and not waited:
            return new, {}
        return admit(new, waited, admission=self.task.admission, site_of=self.site_of, batch=self.task.batch)

    def _partitions_of(self, site: int) -> int:
        """Bit set of the partitions of a site."""
        return sum(1 << int(p) for p in np.flatnonzero(self.site_of == site))

    def _evaluate(
        self, new: Mapping[int, RowSet], old: Mapping[str, list[_OpenBlock]]
    ) -> dict[str, list[pa.RecordBatch]]:
        """Run every plan at every site; returns the new rows of intermediate states."""
        writers = {
            plan.query.name: ResultWriter(self.task, plan.query, self.slot, self.unique)
            for site in self.sites
            for plan in self.task.plans[site]
        }
        kept: dict[str, list[pa.RecordBatch]] = {}
        for site in self.sites:
            started = time.thread_time()
            report = SiteReport(site)
            rows = self._rows_of_site(site, new)
            mine = self._partitions_of(site)
            blocks = [b for found in old.values() for b in found if b.partitions & mine]
            states = self._states_of(report, [b for b in blocks if not is_waiting(b.meta.state)])
            report.rows = sum(len(r) for r in rows.values())
            pairs = np.zeros(PARTITIONS, dtype=np.int64)
            for plan in self.task.plans[site]:
                pairs += self._run_plan(plan, rows, states, writers[plan.query.name], kept, report)
            arrived = np.zeros_like(pairs)
            for r in rows.values():
                arrived += partition_counts(int64s(r.batch, HASH))
            active = np.flatnonzero(arrived + pairs)
            report.partitions = tuple((int(p), int(arrived[p]), int(pairs[p])) for p in active)
            report.busy_s = time.thread_time() - started
            self.report.sites.append(report)
        self._laps.mark("join")
        for writer in writers.values():
            self.report.results.extend(writer.close())
        return kept

    def _states_of(self, report: SiteReport, blocks: Iterable[_OpenBlock]) -> dict[str, list[RowSet]]:
        """Row sets by state; while partitions are spilled, private copies of those in memory."""
        states: dict[str, list[RowSet]] = {}
        spilled = sorted(self.task.admission.spilled)
        mine = self.site_of == report.site
        mine[spilled] = False
        for block in blocks:
            rows = block.rows
            if spilled and block.meta.state in self.task.spillable:
                rows = RowSet(_rows_in(rows.batch, mine))
            report.state_bytes += round(block.meta.bytes * block.rows_of[mine].sum() / block.meta.rows)
            states.setdefault(block.meta.state, []).append(rows)
        return states

    def _run_plan(
        self,
        plan: LocalPlan,
        rows: Mapping[int, RowSet],
        states: Mapping[str, list[RowSet]],
        writer: ResultWriter,
        kept: dict[str, list[pa.RecordBatch]],
        report: SiteReport,
    ) -> np.ndarray:
        """Run one plan; returns the pairs it examined, by partition."""
        if plan.query.name in self.report.failures:
            return np.zeros(PARTITIONS, dtype=np.int64)
        operator = self._operator(plan, report.site, rows, states, writer)
        before = writer.rows
        try:
            operator.run()
        except QuotaExceeded as error:
            self.report.failures[plan.query.name] = str(error)
            return operator.pairs_by_partition
        for state, batch in operator.kept.items():
            kept.setdefault(state, []).append(batch)
        report.pairs += operator.pairs
        report.results += writer.rows - before
        return operator.pairs_by_partition

    def _operator(
        self,
        plan: LocalPlan,
        site: int,
        rows: Mapping[int, RowSet],
        states: Mapping[str, list[RowSet]],
        writer: ResultWriter,
    ) -> Operator:
        quota = self.task.quota_pairs
        if plan.window is None:
            return WindowJoin(plan, new=rows, old=states, emit=writer.write, quota=quota)
        return (WindowDistinct if plan.window.distinct else WindowAggregate)(
            plan.query,
            plan.window,
            blocks=states.get(plan.window.state, ()),
            emission=self.task.emissions[plan.query.name],
            owned=self.site_of == site,
            emit=writer.write,
            quota=quota,
        )

    def _rows_of_site(self, site: int, new: Mapping[int, RowSet]) -> dict[int, RowSet]:
        if len(self.sites) == 1:
            return dict(new)
        mine = {}
        for source, rows in new.items():
            at = np.flatnonzero(self.site_of[partition_of(int64s(rows.batch, HASH))] == site)
            if len(at):
                mine[source] = RowSet(rows.batch.take(pa.array(at)))  # still sorted
        return mine

    def _keep(self, new: Mapping[int, RowSet], kept: Mapping[str, list[pa.RecordBatch]]) -> None:
        for source, rows in new.items():
            state = self.task.layout.inputs[source].state
            if state in self.task.stateful:
                self._write_block(state, rows.batch, TIME)
        for state, batches in kept.items():
            rows = batches[0] if len(batches) == 1 else RowSet.sorted(concat_rows(batches), MAX_TIME).batch
            self._write_block(state, rows, MAX_TIME)

    def _write_block(
        self, state: str, rows: pa.RecordBatch, time_column: str, batches: tuple[int, int] | None = None
    ) -> None:
        first, last = batches or (self.task.batch, self.task.batch)
        times = pc.min_max(rows.column(time_column))
        deadline = pc.max(rows.column(DEADLINE)).as_py() if time_column == MAX_TIME else None
        partitions = partition_counts(int64s(rows, HASH))
        self.report.blocks.append(
            write_block(
                self.task.checkpoint / BLOCKS,
                rows,
                state=state,
                batch=first,
                last_batch=last,
                slot=self.slot,
                unique=self.unique + (f"-{len(self.report.blocks)}"),
                min_ts=times["min"].as_py(),
                max_ts=times["max"].as_py(),
                max_deadline=deadline,
                partitions=enumerate(partitions.tolist()),
            )
        )

    def _compact(self) -> None:
        """Merge groups of blocks, taking from each the partitions that are now this slot's."""
        metas = {b.name: b for b in self.task.blocks}
        owned = np.isin(self.site_of, self.sites)
        for group in self.task.merges:
            pieces = []
            for name in group:
                if name in _opened:
                    pieces.append(_rows_in(_opened[name].rows.batch, owned))
            pieces = [p for p in pieces if p.num_rows]
            if pieces:
                time_column = MAX_TIME if MAX_TIME in pieces[0].schema.names else TIME
                merged = RowSet.sorted(concat_rows(pieces), time_column)
                blocks = [metas[name] for name in group]
                span = (min(b.batch for b in blocks), max(b.last_batch for b in blocks))
                trim = self.task.trims.get(blocks[0].state)
                rows = merged.batch if trim is None else keep_newest(merged, trim)
                if rows.num_rows:
                    self._write_block(blocks[0].state, rows, time_column, span)


def _rows_in(rows: pa.RecordBatch, owned: np.ndarray) -> pa.RecordBatch:
    """Rows of the owned partitions."""
    mine = owned[partition_of(int64s(rows, HASH))]
    return rows if mine.all() else rows.filter(pa.array(mine))
