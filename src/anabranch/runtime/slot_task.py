"""What one Spark task does in a batch: work through its sites, one after the other.

Nothing here knows Spark: rows come in as Arrow batches, a report goes out, blocks and staged
results are files. The same function runs in tests without a JVM.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import reduce
from itertools import chain
from operator import or_
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from anabranch.adapt.tracks import Partitions, bits
from anabranch.exchange.partition_map import PARTITIONS, PartitionMap
from anabranch.operators.final_rows import Emission
from anabranch.operators.newest_rows import Trim, keep_newest
from anabranch.operators.partition_counts import partition_counts
from anabranch.operators.rows import RowSet, int64s, rows_in
from anabranch.operators.window_join import QuotaExceeded
from anabranch.plan.layout import DEADLINE, HASH, MAX_TIME, TIME, Layout
from anabranch.runtime.admission import OPEN, Admission, admit, is_waiting, waiting_state
from anabranch.runtime.arrivals import Arrivals
from anabranch.runtime.block_slices import ranges_within, slice_block
from anabranch.runtime.guest_rows import forget_gathered
from anabranch.runtime.laps import Laps
from anabranch.runtime.memory_plan import NO_BUDGET, MemoryPlan
from anabranch.runtime.open_blocks import OpenBlock, close_blocks, mask_of, open_blocks, opened
from anabranch.runtime.reports import SiteReport, SlotReport, charge_writing
from anabranch.runtime.shipments import Shipment, folder_of
from anabranch.runtime.site_work import TrackWork, join_states
from anabranch.runtime.staging import ResultWriter, write_dead_letters
from anabranch.runtime.track_run import TrackRun
from anabranch.runtime.wire import Wire
from anabranch.state.block import BlockMeta, unique_part, write_block
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
    times: Mapping[str, str]
    """By stream the name of its time column."""
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
    look: int | None = None
    """Number of the look at how the references of joins meet, where one is due."""
    memory: MemoryPlan = NO_BUDGET
    """What the sites' memory budget means for each state."""
    emissions: Mapping[str, Emission] = field(default_factory=dict)
    """By query that emits rows once they are final: which are, in this step."""
    trims: Mapping[str, Trim] = field(default_factory=dict)
    """By state of which the newest rows of each group are enough."""
    shipments: tuple[Shipment, ...] = ()
    """What sites take over from others, where they share nothing."""

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
        self._blocks_at = task.checkpoint / BLOCKS
        self._laps = Laps(self.report.seconds)

    def run(self, batches: Iterable[pa.RecordBatch]) -> SlotReport:
        arrived = [b for b in batches if b.num_rows]
        self._laps.mark("receive")
        arrivals = Arrivals(self.task, self.owned, self.at_work)
        new = arrivals.sort_out(arrived)
        self.report.streams = arrivals.streams
        self._laps.mark("sort")
        spilled = bool(self.task.admission.spilled)
        old = open_blocks(self._blocks_at, self.task.blocks, self.at_work, sparing=spilled)
        new, waiting = self._admit(new, old)
        self._laps.mark("open")
        kept = self._evaluate(new, old)
        forget_gathered(self.task.checkpoint, self.task.batch)
        self._laps.mark("write results")
        self._keep(new, kept)
        for source, rows in waiting.items():
            self._keep_owned(waiting_state(self.task.layout.inputs[source].state), rows)
        self._laps.mark("write blocks")
        self._compact()
        if spilled:  # keep no more mapped than the sites may work on
            close_blocks(self._blocks_at)
        self._laps.mark("compact")
        if arrivals.dead:
            # No query's files have a name that begins so, whatever the query is called.
            name = f"dead.letters-b{self.task.batch:010d}-s{self.slot:03d}-{self.unique}.parquet"
            rows = pa.concat_tables(arrivals.dead)
            self.report.dead_letters.append(write_dead_letters(self.task.checkpoint, rows, name=name))
        return self.report

    def _admit(
        self, new: dict[int, RowSet], old: Mapping[str, list[OpenBlock]]
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
        states = ((source.id, source.state) for source in self.task.layout.inputs)
        return admit(
            new,
            waited,
            admission=self.task.admission,
            site_of=site_of,
            batch=self.task.batch,
            unhindered=frozenset(i for i, state in states if state not in self.task.memory.joined),
        )

    def _leaving(self) -> Partitions:
        """Partitions on which some track ends."""
        ending = (w.partitions for work in self.task.work.values() for w in work if w.until is not None)
        return reduce(or_, ending, 0)

    def _evaluate(
        self, new: Mapping[int, RowSet], old: Mapping[str, list[OpenBlock]]
    ) -> dict[str, list[pa.RecordBatch]]:
        """Run every track of every site; returns the new rows of intermediate states."""
        writers = {
            work.plan.query.name: ResultWriter(self.task, work.plan.query, self.slot, self.unique)
            for site in self.sites
            for work in self.task.work[site]
        }
        kept: dict[str, list[pa.RecordBatch]] = {}
        held = {state: blocks for state, blocks in old.items() if not is_waiting(state)}
        for site in self.sites:
            started, written_s = time.thread_time(), _writing_s(writers)
            report = SiteReport(site)
            mine = self.site_of == site
            rows = self._rows_of(mine, new)
            report.state_bytes = self._bytes_of(mine, chain.from_iterable(held.values()))
            blocks = self._in_memory(mine, held)
            report.rows = sum(len(r) for r in rows.values())
            pairs = np.zeros(PARTITIONS, dtype=np.int64)
            packing_s = self._take_over(report)
            for work in self.task.work[site]:
                its = mask_of(work.partitions)
                its_rows = rows if (its == mine).all() else self._rows_of(its, new)
                query = work.plan.query.name
                if query not in self.report.failures:
                    track = TrackRun(self.task, work, its_rows, blocks, report)
                    try:
                        track.run(writers[query])
                    except QuotaExceeded as error:
                        self.report.failures[query] = str(error)
                    pairs += track.pairs_by_partition
                    for state, batches in track.kept.items():
                        kept.setdefault(state, []).extend(batches)
            arrived = np.zeros_like(pairs)
            for r in rows.values():
                arrived += partition_counts(int64s(r.batch, HASH))
            active = np.flatnonzero(arrived + pairs)
            report.partitions = tuple((int(p), int(arrived[p]), int(pairs[p])) for p in active)
            for_others_s = packing_s + _writing_s(writers) - written_s
            report.busy_s = time.thread_time() - started - for_others_s
            self.report.sites.append(report)
        self._laps.mark("join")
        for writer in writers.values():
            self.report.results.extend(writer.close())
        charge_writing(self.report, _writing_s(writers))
        return kept

    def _take_over(self, report: SiteReport) -> float:
        """Copy what has moved to a site into blocks of its own; returns the seconds that senders pay.

        In this batch the site still reads the slices where they were: the copies are for the next.
        """
        began, packing_s = time.thread_time(), 0.0
        for shipment in self.task.shipments:
            if shipment.target != report.site:
                continue
            started = time.thread_time()
            pieces = shipment.pack(opened(self._blocks_at))
            seconds = time.thread_time() - started
            packing_s += seconds
            self.report.packing_s[shipment.source] = self.report.packing_s.get(shipment.source, 0.0) + seconds
            time_column = MAX_TIME if MAX_TIME in pieces[0].schema.names else TIME
            rows = RowSet.merged(pieces, time_column).batch
            self._write_block(shipment.state, rows, time_column, shipment.batches, folder_of(report.site))
            report.copied_rows += rows.num_rows
            report.copied_bytes += self.report.blocks[-1].bytes
        report.copy_s = time.thread_time() - began - packing_s
        return packing_s

    def _bytes_of(self, mine: np.ndarray, blocks: Iterable[OpenBlock]) -> int:
        """State that a site works on, and what answering its queries holds beside it."""
        here, held = self._here(mine), self.task.memory.held
        wanted = bits(np.flatnonzero(here))
        its = [b for b in blocks if b.partitions & wanted]
        if not its:
            return 0
        rows = np.stack([b.rows_of for b in its]) @ here
        return round(float(rows @ [b.meta.bytes / b.meta.rows + held.get(b.meta.state, 0) for b in its]))

    def _in_memory(
        self, mine: np.ndarray, blocks: Mapping[str, list[OpenBlock]]
    ) -> Mapping[str, list[OpenBlock]]:
        """The blocks, of those that aggregates read the slices of partitions that are not spilled."""
        if not self.task.admission.spilled:
            return blocks
        here, found = self._here(mine), dict(blocks)
        for state in self.task.memory.grouped & blocks.keys():
            slices = (slice_block(block, here) for block in blocks[state])
            found[state] = [piece for piece in slices if piece is not None]
        return found

    def _here(self, mine: np.ndarray) -> np.ndarray:
        here = mine.copy()
        here[sorted(self.task.admission.spilled)] = False
        return here

    def _rows_of(self, mine: np.ndarray, new: Mapping[int, RowSet]) -> dict[int, RowSet]:
        """New rows of some partitions, by input."""
        if (mine >= self.at_work).all():
            return dict(new)
        found = {source: rows.within(mine) for source, rows in new.items()}
        return {source: rows for source, rows in found.items() if len(rows)}

    def _keep(self, new: Mapping[int, RowSet], kept: Mapping[str, list[pa.RecordBatch]]) -> None:
        for source, rows in new.items():
            state = self.task.layout.inputs[source].state
            if state in self.task.stateful:
                self._keep_owned(state, rows.batch)
        for state, batches in kept.items():
            self._write_block(state, RowSet.merged(batches, MAX_TIME).batch, MAX_TIME)

    def _keep_owned(self, state: str, rows: pa.RecordBatch) -> None:
        """Keep rows of a stream; those of a guest are kept by their owner."""
        if (owned := rows_in(rows, self.owned)).num_rows:
            self._write_block(state, owned, TIME)

    def _write_block(
        self,
        state: str,
        rows: pa.RecordBatch,
        time_column: str,
        batches: tuple[int, int] | None = None,
        folder: str = "",
    ) -> None:
        first, last = batches or (self.task.batch, self.task.batch)
        times = pc.min_max(rows.column(time_column))
        deadline = pc.max(rows.column(DEADLINE)).as_py() if time_column == MAX_TIME else None
        partitions = partition_counts(int64s(rows, HASH))
        self.report.blocks.append(
            write_block(
                self._blocks_at,
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
                folder=folder,
            )
        )

    def _partitions_in(self, state: str) -> np.ndarray:
        """Partitions whose rows in a state are read here: those of a track that ends, where it ends."""
        mine = self.owned.copy()
        for site, work in self.task.work.items():
            for item in work:
                if item.until is not None and state in join_states(item.plan):
                    mine[mask_of(item.partitions)] = site in self.sites
        return mine

    def _compact(self) -> None:
        """Merge groups of blocks, taking from each the partitions that are now this slot's."""
        metas = {b.name: b for b in self.task.blocks}
        for group in self.task.merges:
            state = metas[group[0]].state
            mine = self._partitions_in(state)
            known = opened(self._blocks_at)
            blocks = [known[name] for name in group if name in known]
            span = (min(metas[n].batch for n in group), max(metas[n].last_batch for n in group))
            for partitions in ranges_within(blocks, mine, self.task.memory.most_to_merge(state)):
                self._merge(state, blocks, partitions, span)

    def _merge(
        self, state: str, blocks: Iterable[OpenBlock], partitions: np.ndarray, span: tuple[int, int]
    ) -> None:
        """Write one block of the rows that several have of some partitions."""
        found = (slice_block(block, partitions) for block in blocks)
        if pieces := [piece.rows.batch for piece in found if piece is not None]:
            time_column = MAX_TIME if MAX_TIME in pieces[0].schema.names else TIME
            merged = RowSet.merged(pieces, time_column)
            trim = self.task.trims.get(state)
            rows = merged.batch if trim is None else keep_newest(merged, trim)
            if rows.num_rows:
                self._write_block(state, rows, time_column, span)


def _writing_s(writers: Mapping[str, ResultWriter]) -> float:
    return sum(writer.seconds for writer in writers.values())
