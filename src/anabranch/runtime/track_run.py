"""One track at one site in one batch: what it lacks is rebuilt, then its plan works on the new rows."""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping, Sequence
from itertools import chain
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from anabranch.exchange.partition_map import PARTITIONS
from anabranch.operators.edge_sample import sample_edge
from anabranch.operators.ending_join import EndingJoin, EndingProbe
from anabranch.operators.joined_results import as_stream
from anabranch.operators.multiway_probe import MultiwayProbe
from anabranch.operators.operator import Operator
from anabranch.operators.rows import RowSet
from anabranch.operators.state_rebuild import StateRebuild
from anabranch.operators.window_aggregate import WindowAggregate
from anabranch.operators.window_distinct import WindowDistinct
from anabranch.operators.window_join import WindowJoin
from anabranch.plan.aggregate import WindowNode
from anabranch.plan.local_plan import JoinNode, LeafNode, ProbeNode
from anabranch.runtime.guest_rows import gather
from anabranch.runtime.open_blocks import OpenBlock, mask_of
from anabranch.runtime.reports import JoinReport, SiteReport
from anabranch.runtime.site_work import TrackWork, join_states
from anabranch.runtime.staging import ResultWriter

if TYPE_CHECKING:
    from anabranch.runtime.slot_task import SlotTask

States = dict[str, list[RowSet]]


class TrackRun:
    """Runs a track.

    Parameters
    ----------
    rows
        New rows of the track's partitions, by input.
    blocks
        Open blocks by state.
    report
        Where the site's work is told.
    """

    def __init__(
        self,
        task: SlotTask,
        work: TrackWork,
        rows: Mapping[int, RowSet],
        blocks: Mapping[str, Sequence[OpenBlock]],
        report: SiteReport,
    ) -> None:
        self._task = task
        self._work = work
        self._rows = rows
        self._blocks = blocks
        self._report = report
        self._mine = mask_of(work.partitions)
        self._nodes = work.plan.nodes()
        self._fresh = {n.fresh for n in self._nodes if isinstance(n, JoinNode)}
        self.kept: dict[str, list[pa.RecordBatch]] = {}
        """New rows of intermediate states."""
        self.pairs_by_partition = np.zeros(PARTITIONS, dtype=np.int64)
        """Of new rows: what is computed once, for a move or another plan, is no load that lasts."""

    def run(self, writer: ResultWriter) -> None:
        self._answer_joined(writer)
        started, written_s = time.thread_time(), writer.seconds
        states = self._states(self._task.admission.spilled)
        if self._work.rebuilds:
            self._rebuild(states)
        if self._task.batch < self._work.after:  # a further step of a batch that is the older track's
            return
        operator = self._operator(states, writer)
        self._run(operator, writer)
        if self._work.until is None and self._work.plan.edges and isinstance(operator, WindowJoin):
            self._tell(operator, time.thread_time() - started - (writer.seconds - written_s))
            self._tell_references(states)

    def _answer_joined(self, writer: ResultWriter) -> None:
        """Group the results of a join, whatever tracks have found them: the newest answers for all."""
        window = self._work.plan.window
        if window is not None and window.joined and self._work.until is None:
            blocks = [as_stream(block.rows) for block in self._blocks_of(window.state)]
            self._run(self._grouping(window, blocks, writer), writer)

    def _run(self, operator: Operator, writer: ResultWriter) -> None:
        before = writer.rows
        try:
            operator.run()
        finally:
            self.pairs_by_partition += operator.pairs_by_partition
            self._report.pairs += operator.pairs
            self._report.results += writer.rows - before
        for state, batch in operator.kept.items():
            self.kept.setdefault(state, []).append(batch)

    def _states(self, spilled: Collection[int] = ()) -> States:
        """Row sets by state, of the partitions and batches that are the track's."""
        leaves = {n.state: n.input for n in self._nodes if isinstance(n, LeafNode)}
        own = sorted(leaves.keys() | join_states(self._work.plan))
        in_memory = self._mine.copy()
        in_memory[list(spilled)] = False
        states: States = {}
        guests: dict[str, list[OpenBlock]] = {}
        for block in chain.from_iterable(map(self._blocks_of, own)):
            meta, is_leaf = block.meta, block.meta.state in leaves
            if is_leaf and meta.batch < self._work.after:
                continue
            if is_leaf and not spilled and self._is_guest(block):
                guests.setdefault(meta.state, []).append(block)
                continue
            rows = block.rows
            if spilled:  # private copies
                rows = rows.within(in_memory)
            until = self._work.until
            if until is not None and meta.state not in self._fresh and not (is_leaf and meta.batch >= until):
                rows = rows.as_old()
            states.setdefault(meta.state, []).append(rows)
        for state, blocks in guests.items():
            whose = self._task.checkpoint, self._report.site, self._slot, self._task.slots
            key = *whose, state, self._work.partitions, self._work.until
            arrived = self._rows.get(leaves[state])
            sets = gather(key, blocks, self._mine, self._task.batch, arrived)
            states.setdefault(state, []).extend(sets)
        return states

    def _blocks_of(self, state: str) -> list[OpenBlock]:
        """Blocks of a state that have rows of the track's partitions."""
        return [b for b in self._blocks.get(state, ()) if b.partitions & self._work.partitions]

    def _is_guest(self, block: OpenBlock) -> bool:
        """Whether a track that ends reads new rows from a file of another slot."""
        until = self._work.until
        return until is not None and block.meta.batch >= until and block.meta.slot != self._slot

    @property
    def _slot(self) -> int:
        return self._task.partition_map.slot_of_site(self._report.site, self._task.slots)

    def _rebuild(self, states: States) -> None:
        """Compute the states that the track lacks, of spilled partitions too, and add them to its own."""
        began, whole = time.thread_time(), self._states()
        for partitions, names in self._work.rebuilds:
            rebuild = StateRebuild(self._work.plan, states=names, old=whole, mask=mask_of(partitions))
            rebuild.run()
            for state, batch in rebuild.kept.items():
                rows = RowSet(batch)
                is_new = self._work.until is None or state in self._fresh
                self.kept.setdefault(state, []).append(batch)
                states.setdefault(state, []).append(rows if is_new else rows.as_old())
                self._report.rebuilt_rows += batch.num_rows
        self._report.rebuild_s += time.thread_time() - began

    def _operator(self, states: States, writer: ResultWriter) -> Operator:
        plan, until, quota = self._work.plan, self._work.until, self._task.quota_pairs
        if plan.window is None or plan.window.joined:
            tree, probe = WindowJoin, MultiwayProbe
            if until is not None and self._task.batch >= until:
                tree, probe = EndingJoin, EndingProbe
            join = probe if isinstance(plan.root, ProbeNode) else tree
            return join(plan, new=self._rows, old=states, emit=writer.write, quota=quota)
        return self._grouping(plan.window, states.get(plan.window.state, ()), writer)

    def _grouping(self, window: WindowNode, blocks: Sequence[RowSet], writer: ResultWriter) -> Operator:
        query = self._work.plan.query
        return (WindowDistinct if window.distinct else WindowAggregate)(
            query,
            window,
            blocks=blocks,
            emission=self._task.emissions[query.name],
            owned=self._mine,
            emit=writer.write,
            quota=self._task.quota_pairs,
        )

    def _tell(self, operator: WindowJoin, seconds: float) -> None:
        """Report work and time, from which the optimizer learns what things cost."""
        work = self._work
        join = self._join_report
        join.busy_s += seconds
        join.probes += operator.probes
        join.pairs += operator.pairs
        join.inserts += sum(batch.num_rows for batch in operator.kept.values())
        join.settled &= not work.after and not work.rebuilds

    def _tell_references(self, states: States) -> None:
        """Report rows of every reference and, now and then, how they meet."""
        join = self._join_report
        leaves = [node for node in self._nodes if isinstance(node, LeafNode)]
        states_read = {leaf.state for leaf in leaves}
        in_state = {state: sum(map(self._rows_of, self._blocks_of(state))) for state in states_read}
        for leaf in leaves:
            alias, new = leaf.aliases[0], self._rows.get(leaf.input)
            join.new_rows[alias] = join.new_rows.get(alias, 0) + (0 if new is None else len(new))
            join.state_rows[alias] = join.state_rows.get(alias, 0) + in_state[leaf.state]
        if self._task.look is None:
            return
        from_left = (self._task.look + self._report.site) % 2
        for edge in self._work.plan.edges:
            probing, met = (edge.left, edge.right) if from_left else (edge.right, edge.left)
            assert isinstance(probing, LeafNode)
            if (rows := self._rows.get(probing.input)) is not None:
                probes, kept, pairs = sample_edge(edge, probing, rows, met, states.get(met.state, ()))
                examined, found = join.edges.get(frozenset(edge.aliases), (0, 0))
                join.edges[frozenset(edge.aliases)] = (examined + probes * kept, found + pairs)

    def _rows_of(self, block: OpenBlock) -> int:
        """Rows of the track's partitions; counted once, for most blocks stay as they are."""
        counted = "rows", self._work.partitions
        return block.rows.derived(counted, lambda: int(block.rows_of[self._mine].sum()))

    @property
    def _join_report(self) -> JoinReport:
        return self._report.joins.setdefault(self._work.plan.query.name, JoinReport())
