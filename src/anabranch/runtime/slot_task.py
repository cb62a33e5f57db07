"""What one Spark task does in a batch: work through its sites, one after the other.

Nothing here knows Spark: rows come in as Arrow batches, a report goes out, blocks and staged
results are files. The same function runs in tests without a JVM.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce
from operator import or_
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from anabranch.adapt.tracks import Partitions, bits
from anabranch.exchange.partition_map import PARTITIONS, PartitionMap
from anabranch.operators.final_rows import Emission
from anabranch.operators.newest_rows import Trim, keep_newest
from anabranch.operators.operator import Operator
from anabranch.operators.partition_counts import partition_counts
from anabranch.operators.rows import RowSet, concat_rows, int64s, rows_in
from anabranch.operators.state_rebuild import StateRebuild, kept_state
from anabranch.operators.window_aggregate import WindowAggregate
from anabranch.operators.window_distinct import WindowDistinct
from anabranch.operators.window_join import QuotaExceeded, WindowJoin
from anabranch.plan.layout import DEADLINE, HASH, MAX_TIME, OLD, TIME, Layout
from anabranch.plan.local_plan import LeafNode
from anabranch.runtime.admission import OPEN, Admission, admit, is_waiting, waiting_state
from anabranch.runtime.arrivals import Arrivals
from anabranch.runtime.laps import Laps
from anabranch.runtime.reports import SiteReport, SlotReport
from anabranch.runtime.site_work import TrackWork
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
    work: Mapping[int, tuple[TrackWork, ...]]
    """The tracks of every site."""
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

    def destinations(self) -> tuple[tuple[int, ...], ...]:
        """Per partition the slots that work on its rows: its owner's, then those of tracks that end."""
        slots = [[slot] for slot in self.partition_map.slot_of_partition(self.slots)]
        for site, work in self.work.items():
            slot = self.partition_map.slot_of_site(site, self.slots)
            for item in work:
                if item.until is not None:
                    for p in np.flatnonzero(mask_of(item.partitions)):
                        if slot not in slots[p]:
                            slots[p].append(slot)
        return tuple(map(tuple, slots))


@dataclass(frozen=True, slots=True)
class _OpenBlock:
    meta: BlockMeta
    rows: RowSet
    partitions: Partitions
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
        self.owned = np.isin(self.site_of, self.sites)
        self.at_work = self.owned | mask_of(
            reduce(or_, (w.partitions for site in self.sites for w in task.work[site]), 0)
        )
        """Partitions of this slot, and those of others on which tracks of its sites end."""
        self._laps = Laps(self.report.seconds)

    def run(self, batches: Iterable[pa.RecordBatch]) -> SlotReport:
        arrived = [b for b in batches if b.num_rows]
        self._laps.mark("receive")
        arrivals = Arrivals(self.task, self.owned, self.at_work)
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
            self._keep_owned(waiting_state(self.task.layout.inputs[source].state), rows)
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
        """Blocks by state, of which some partition is worked on in this slot."""
        for name in _opened.keys() - {b.name for b in self.task.blocks}:
            del _opened[name]
        mine = bits(np.flatnonzero(self.at_work))
        by_state: dict[str, list[_OpenBlock]] = {}
        for meta in self.task.blocks:
            block = _opened.get(meta.name)
            if block is None or block.meta.partitions != meta.partitions:
                partitions = bits(p for p, _ in meta.partitions)
                if not partitions & mine:
                    continue
                block = _opened[meta.name] = _open(self.task.checkpoint / BLOCKS, meta, partitions)
            if block.partitions & mine:
                by_state.setdefault(meta.state, []).append(block)
        return by_state

    def _admit(
        self, new: dict[int, RowSet], old: Mapping[str, list[_OpenBlock]]
    ) -> tuple[dict[int, RowSet], dict[int, pa.RecordBatch]]:
        """Rows that enter now, those that waited among them, and rows that wait for a later batch."""
        waited = {}
        for source in self.task.layout.inputs:
            blocks = old.get(waiting_state(source.state), ())
            if pieces := [rows_in(b.rows.batch, self.at_work) for b in blocks]:
                waited[source.id] = [RowSet(p) for p in pieces]
        if self.task.admission.is_open and not waited:
            return new, {}
        # Two slots that work on the same rows must agree on which enter, without seeing each other's.
        site_of = np.where(mask_of(self._leaving()), -1, self.site_of)
        return admit(new, waited, admission=self.task.admission, site_of=site_of, batch=self.task.batch)

    def _leaving(self) -> Partitions:
        """Partitions on which some track ends."""
        ending = (w.partitions for work in self.task.work.values() for w in work if w.until is not None)
        return reduce(or_, ending, 0)

    def _evaluate(
        self, new: Mapping[int, RowSet], old: Mapping[str, list[_OpenBlock]]
    ) -> dict[str, list[pa.RecordBatch]]:
        """Run every track of every site; returns the new rows of intermediate states."""
        writers = {
            work.plan.query.name: ResultWriter(self.task, work.plan.query, self.slot, self.unique)
            for site in self.sites
            for work in self.task.work[site]
        }
        kept: dict[str, list[pa.RecordBatch]] = {}
        for site in self.sites:
            started = time.thread_time()
            report = SiteReport(site)
            mine = self.site_of == site
            rows = self._rows_of(mine, new)
            blocks = [b for found in old.values() for b in found if not is_waiting(b.meta.state)]
            report.state_bytes = self._bytes_of(mine, blocks)
            report.rows = sum(len(r) for r in rows.values())
            pairs = np.zeros(PARTITIONS, dtype=np.int64)
            for work in self.task.work[site]:
                its = mask_of(work.partitions)
                its_rows = rows if (its == mine).all() else self._rows_of(its, new)
                pairs += self._run_track(
                    work, its, its_rows, blocks, writers[work.plan.query.name], kept, report
                )
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

    def _bytes_of(self, mine: np.ndarray, blocks: Iterable[_OpenBlock]) -> int:
        """State that a site works on."""
        here = mine.copy()
        here[sorted(self.task.admission.spilled)] = False
        return sum(round(b.meta.bytes * b.rows_of[here].sum() / b.meta.rows) for b in blocks)

    def _states_of(
        self, work: TrackWork, its: np.ndarray, blocks: Iterable[_OpenBlock], spilled: Collection[int] = ()
    ) -> dict[str, list[RowSet]]:
        """Row sets by state, of the partitions and batches that are the track's."""
        states: dict[str, list[RowSet]] = {}
        nodes = work.plan.nodes()
        own = {n.state for n in nodes} | {kept_state(n) for n in nodes}
        leaves = {n.state for n in nodes if isinstance(n, LeafNode)}
        here = its.copy()
        here[list(spilled)] = False
        for block in blocks:
            meta, is_leaf = block.meta, block.meta.state in leaves
            if meta.state not in own or not block.partitions & work.partitions:
                continue
            if is_leaf and meta.batch < work.after:
                continue
            rows = block.rows
            if spilled and meta.state in self.task.spillable:  # private copies of what is in memory
                rows = RowSet(rows_in(rows.batch, here))
            if work.until is not None and OLD not in rows.batch.schema.names:
                rows = rows.aged(is_old=not is_leaf or meta.batch < work.until)
            states.setdefault(meta.state, []).append(rows)
        return states

    def _run_track(
        self,
        work: TrackWork,
        its: np.ndarray,
        rows: Mapping[int, RowSet],
        blocks: Sequence[_OpenBlock],
        writer: ResultWriter,
        kept: dict[str, list[pa.RecordBatch]],
        report: SiteReport,
    ) -> np.ndarray:
        """Run one track; returns the pairs it examined, by partition."""
        plan = work.plan
        if plan.query.name in self.report.failures:
            return np.zeros(PARTITIONS, dtype=np.int64)
        states = self._states_of(work, its, blocks, self.task.admission.spilled)
        before = writer.rows
        pairs = np.zeros(PARTITIONS, dtype=np.int64)
        try:
            if work.rebuilds:
                pairs += self._rebuild(work, states, self._states_of(work, its, blocks), kept, report)
            if self.task.batch >= work.after:
                operator = self._operator(work, its, rows, states, writer)
                operator.run()
                for state, batch in operator.kept.items():
                    kept.setdefault(state, []).append(batch)
                report.pairs += operator.pairs
                pairs += operator.pairs_by_partition
        except QuotaExceeded as error:
            self.report.failures[plan.query.name] = str(error)
        report.results += writer.rows - before
        return pairs

    def _rebuild(
        self,
        work: TrackWork,
        states: dict[str, list[RowSet]],
        whole: Mapping[str, Sequence[RowSet]],
        kept: dict[str, list[pa.RecordBatch]],
        report: SiteReport,
    ) -> np.ndarray:
        """Compute states that the track lacks from `whole`, spilled partitions included; add them to its own.

        Returns the pairs that it examined, by partition.
        """
        pairs = np.zeros(PARTITIONS, dtype=np.int64)
        for partitions, names in work.rebuilds:
            mask = mask_of(partitions)
            rebuild = StateRebuild(work.plan, states=names, old=whole, mask=mask, quota=self.task.quota_pairs)
            rebuild.run()
            for state, batch in rebuild.kept.items():
                kept.setdefault(state, []).append(batch)
                rows = RowSet(batch)
                states.setdefault(state, []).append(rows if work.until is None else rows.aged(is_old=True))
                report.rebuilt_rows += batch.num_rows
            pairs += rebuild.pairs_by_partition
        return pairs

    def _operator(
        self,
        work: TrackWork,
        its: np.ndarray,
        rows: Mapping[int, RowSet],
        states: Mapping[str, list[RowSet]],
        writer: ResultWriter,
    ) -> Operator:
        plan, quota, ends = work.plan, self.task.quota_pairs, work.until is not None
        if plan.window is None:
            if work.until is not None:
                is_old = self.task.batch < work.until
                rows = {source: r.aged(is_old=is_old) for source, r in rows.items()}
            return WindowJoin(plan, new=rows, old=states, emit=writer.write, quota=quota, ends=ends)
        return (WindowDistinct if plan.window.distinct else WindowAggregate)(
            plan.query,
            plan.window,
            blocks=states.get(plan.window.state, ()),
            emission=self.task.emissions[plan.query.name],
            owned=its,
            emit=writer.write,
            quota=quota,
        )

    def _rows_of(self, mine: np.ndarray, new: Mapping[int, RowSet]) -> dict[int, RowSet]:
        """New rows of some partitions, by input."""
        if (mine >= self.at_work).all():
            return dict(new)
        found = {source: RowSet(rows_in(rows.batch, mine)) for source, rows in new.items()}  # still sorted
        return {source: rows for source, rows in found.items() if len(rows)}

    def _keep(self, new: Mapping[int, RowSet], kept: Mapping[str, list[pa.RecordBatch]]) -> None:
        for source, rows in new.items():
            state = self.task.layout.inputs[source].state
            if state in self.task.stateful:
                self._keep_owned(state, rows.batch)
        for state, batches in kept.items():
            rows = batches[0] if len(batches) == 1 else RowSet.sorted(concat_rows(batches), MAX_TIME).batch
            self._write_block(state, rows, MAX_TIME)

    def _keep_owned(self, state: str, rows: pa.RecordBatch) -> None:
        """Keep rows of a stream; those of a guest are kept by their owner."""
        if (owned := rows_in(rows, self.owned)).num_rows:
            self._write_block(state, owned, TIME)

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
        for group in self.task.merges:
            pieces = []
            for name in group:
                if name in _opened:
                    pieces.append(rows_in(_opened[name].rows.batch, self.owned))
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


def mask_of(partitions: Partitions) -> np.ndarray:
    """A set of partitions as an array of truth values."""
    packed = np.frombuffer(partitions.to_bytes(PARTITIONS // 8, "little"), dtype=np.uint8)
    return np.unpackbits(packed, bitorder="little").astype(np.bool_)


def _open(directory: Path, meta: BlockMeta, partitions: Partitions) -> _OpenBlock:
    rows_of = np.zeros(PARTITIONS, dtype=np.int64)
    rows_of[[p for p, _ in meta.partitions]] = [n for _, n in meta.partitions]
    rows = open_block(directory, meta)
    if rows_of.sum() < meta.rows:  # some of its partitions were discarded
        rows = rows_in(rows, rows_of > 0)
    return _OpenBlock(meta, RowSet(rows), partitions, rows_of)
