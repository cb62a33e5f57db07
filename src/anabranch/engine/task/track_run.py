"""One track at one site in one batch: what it lacks is rebuilt, then its plan works on the new rows."""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from enum import StrEnum
from itertools import chain
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from anabranch.engine.reports import Abandoned, JoinReport, SiteReport
from anabranch.engine.task.arrival.outbox import Stop
from anabranch.engine.task.blocks.block_slices import slice_block
from anabranch.engine.task.blocks.block_writer import BlockWriter
from anabranch.engine.task.blocks.draining_rows import gather
from anabranch.engine.task.blocks.open_blocks import OpenBlock
from anabranch.engine.task.common_rows import CommonRows
from anabranch.engine.task.hot_groups import left_to_lanes
from anabranch.engine.task.results.result_files import Writer
from anabranch.engine.task.sites.site_work import TrackWork, join_states
from anabranch.engine.task.track_report import tell_edges, tell_stations, tell_work
from anabranch.exchange.address import PARTITIONS
from anabranch.exchange.partition_set import PartitionSet
from anabranch.operators.group.answered_share import EVERYTHING, AnsweredShare
from anabranch.operators.group.joined_results import as_stream
from anabranch.operators.group.window_grouping import WindowGrouping
from anabranch.operators.join.sources.row_source import SiteRows
from anabranch.operators.join.state_rebuild import StateRebuild
from anabranch.operators.join.station_join import StationJoin
from anabranch.operators.join.window_join import WindowJoin
from anabranch.operators.operator import Operator
from anabranch.operators.plan_operator import Role, StepInput, grouping_of, operator_of
from anabranch.operators.rows.row_set import RowSet
from anabranch.operators.work_memory import KeptTooMuch, WorkMemory
from anabranch.plan.local_plan import compile_plan
from anabranch.plan.nodes import JoinNode, LeafNode, StationRows, StationsNode
from anabranch.plan.states.state_id import StateId
from anabranch.plan.tree import default_probe
from anabranch.state.block import BlockMeta

if TYPE_CHECKING:
    from anabranch.engine.task.slot_task import SlotTask

States = dict[StateId, list[RowSet]]


class Part(StrEnum):
    """What a run does of a track's work."""

    ALL = "all"
    GROUPS = "groups"
    """Only the groups above the join."""
    JOIN = "join"
    """Only the join, of one partition: its rows must not meet those of others, which may be their copies."""
    SPLIT = "split"
    """Only hot keys: their join, or their groups."""


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
    files
        Where rows go that are too many to be held.
    stop
        For queries at stations: what has arrived there beside new rows, and where rows go on.
    part
        What of its work is to be done.
    origins
        Of hot keys, the rows from which results start here.
    share
        Of hot groups, what is answered here.
    """

    def __init__(
        self,
        task: SlotTask,
        work: TrackWork,
        rows: Mapping[int, RowSet],
        blocks: Mapping[StateId, Sequence[OpenBlock]],
        report: SiteReport,
        files: BlockWriter,
        stop: Stop | None = None,
        part: Part = Part.ALL,
        origins: Mapping[int, RowSet] | None = None,
        share: AnsweredShare | None = None,
    ) -> None:
        self._task = task
        self._part = part
        self._origins = origins or {}
        self._share = share
        self._stop = stop or Stop()
        self._work = work
        self._rows = rows
        self._blocks = blocks
        self._report = report
        self._mine = work.partitions.flags()
        self._nodes = work.plan.nodes()
        self._fresh = {n.fresh for n in self._nodes if isinstance(n, JoinNode)}
        self._files = files
        self._memory = WorkMemory(work.plan.query.name, task.work_memory, self._spill)
        self.kept: dict[StateId, list[pa.RecordBatch]] = {}
        """New rows of intermediate states that are in memory."""
        self.written: list[BlockMeta] = []
        """Those that are in blocks already."""
        self.pairs_by_partition = np.zeros(PARTITIONS, dtype=np.int64)
        """Of new rows: what is computed once, for a move or another plan, is no load that lasts."""
        self.common = CommonRows(task.layout.shared)
        """What other queries have made for this one."""
        self.made: dict[StateId, Sequence[RowSet]] = {}
        self.rebuilt: list[tuple[StateId, PartitionSet, Sequence[RowSet]]] = []
        """What this one has made for others: new rows of states, and states that were lacking."""

    def run(self, writer: Writer) -> None:
        if self._stop.is_first and self._part in (Part.ALL, Part.GROUPS):
            self._answer_joined(writer)
        if self._part is Part.GROUPS:
            return
        started, written_s, emitted = time.thread_time(), writer.seconds, writer.rows
        try:
            found = self._evaluate(writer)
        except KeptTooMuch as error:
            if not self._may_probe or writer.rows != emitted:
                raise
            self._probe_instead(error)
            found = self._evaluate(writer)
        if found is None or self._part is Part.SPLIT:
            return
        operator, states = found
        seconds = time.thread_time() - started - (writer.seconds - written_s)
        if isinstance(operator, StationJoin):
            query, told = self._work.plan.query.name, self._report.at_stations_s
            told[query] = told.get(query, 0.0) + seconds
        elif isinstance(operator, WindowJoin) and self._work.until is None and self._work.plan.edges:
            self._tell(operator, seconds)
            self._tell_references(states)

    def _evaluate(self, writer: Writer) -> tuple[Operator, States] | None:
        """Compute what the plan lacks and let it work; None where the batch is the older track's."""
        # Rows of hot keys arrive at spilled partitions, too, and must meet what is there.
        states = self._states(() if self._part is Part.SPLIT else self._task.admission.spilled)
        if self._work.rebuilds:
            self._rebuild(states)
        if self._task.batch < self._work.after:  # a further step
            return None
        self.made = dict(self.common.new)
        operator = operator_of(self._work.plan, self._given(states, writer))
        self._run(operator, writer)
        if isinstance(operator, StationJoin):
            self._tell_stations(operator)
        return operator, states

    @property
    def _quota(self) -> int:
        return self._task.quota_of(self._work.plan.query)

    @property
    def _may_probe(self) -> bool:
        """Whether there is a plan that keeps less: results of joins before the root are found again."""
        below = (node for node in self._nodes if node is not self._work.plan.root)
        return any(isinstance(node, JoinNode) for node in below)

    def _probe_instead(self, error: KeptTooMuch) -> None:
        """Go on with the plan without intermediate states, as if nothing had been made yet."""
        layout, query = self._task.layout, self._work.plan.query.name
        routed = next(r for r in layout.queries if r.query.name == query)
        plan = compile_plan(layout, routed, default_probe(routed.graph))
        left = Abandoned(query, str(self._work.plan.plan), str(plan.plan), error.budget, self._work.until)
        self._report.abandoned.append(left)
        self._work = replace(self._work, plan=plan, rebuilds=())
        self._nodes, self._fresh = plan.nodes(), set()
        self._memory = WorkMemory(query, self._task.work_memory, self._spill)
        self.discard()

    def _answer_joined(self, writer: Writer) -> None:
        """Group the results of a join, whatever tracks have found them: the newest answers for all."""
        window = self._work.plan.window
        if window is not None and window.joined and self._work.until is None:
            blocks = [as_stream(block.rows) for block in self._blocks_of(window.state)]
            self._run(grouping_of(self._work.plan, blocks, self._given({}, writer)), writer)

    def _run(self, operator: Operator, writer: Writer) -> None:
        before = writer.rows
        try:
            operator.run()
        finally:
            self.pairs_by_partition += operator.pairs_by_partition
            self._report.pairs += operator.pairs
            self._report.results += writer.rows - before
        self._keep(operator.kept)
        self._count_waiting(operator)

    def _keep(self, made: Mapping[StateId, list[pa.RecordBatch]]) -> None:
        for state, batches in made.items():
            if held := [batch for batch in batches if not self._memory.is_placed(batch)]:
                self.kept.setdefault(state, []).extend(held)

    def discard(self) -> None:
        """Forget what was made."""
        self._files.discard(self.written)
        self.kept, self.written = {}, []
        self.made, self.rebuilt = {}, []
        if self._stop.outbox is not None:
            rows = (n for n in self._nodes if isinstance(n, StationRows))
            self._stop.outbox.discard([n.state for n in rows if not n.is_shared])

    def _spill(self, state: StateId, rows: pa.RecordBatch) -> pa.RecordBatch:
        block, mapped = self._files.spill(state, rows)
        self.written.append(block)
        return mapped

    def _count_waiting(self, operator: Operator) -> None:
        """Tell how many rows, or results of a join, wait to become final, and how many do so no more."""
        window, query = self._work.plan.window, self._work.plan.query.name
        if window is None or window.grouped is not None:
            return  # how many windows wait is not known before they are final
        more = -operator.final if isinstance(operator, WindowGrouping) else 0
        if window.joined and window.state in operator.kept:
            more += sum(batch.num_rows for batch in operator.kept[window.state])
        elif not window.joined:
            inputs = self._task.layout.inputs
            more += sum(len(r) for i, r in self._rows.items() if inputs[i].state == window.state)
        self._report.waiting[query] = self._report.waiting.get(query, 0) + more

    def _states(self, spilled: Collection[int] = ()) -> States:
        """Row sets by state, of the partitions and batches that are the track's."""
        leaves = {n.state: n.input for n in self._nodes if isinstance(n, LeafNode)}
        own = sorted(leaves.keys() | join_states(self._work.plan))
        in_memory = self._mine.copy()
        in_memory[list(spilled)] = False
        states: States = {}
        draining: dict[StateId, list[OpenBlock]] = {}
        for block in chain.from_iterable(map(self._blocks_of, own)):
            meta, is_leaf = block.meta, block.meta.state in leaves
            if is_leaf and meta.batch < self._work.after:
                continue
            if is_leaf and not spilled and self._is_draining(block):
                draining.setdefault(meta.state, []).append(block)
                continue
            rows = self._apart(block) if self._part is Part.JOIN else block.rows
            if spilled:  # private copies
                rows = rows.within(in_memory)
            until = self._work.until
            if until is not None and meta.state not in self._fresh and not (is_leaf and meta.batch >= until):
                rows = rows.as_old()
            states.setdefault(meta.state, []).append(rows)
        for state, blocks in draining.items():
            whose = self._task.storage, self._report.site, self._slot, self._task.slots
            key = *whose, state, self._work.partitions, self._work.until
            arrived = self._rows.get(leaves[state])
            sets = gather(key, blocks, self._mine, self._task.batch, arrived)
            states.setdefault(state, []).extend(sets)
        return states

    def _apart(self, block: OpenBlock) -> RowSet:
        """A block's rows of the one partition that is worked on; cut out once, with what is built on them."""

        def cut() -> RowSet:
            found = slice_block(block, self._mine)
            assert found is not None  # `_blocks_of` has looked
            return found.rows

        return block.rows.derived(("apart", self._work.partitions), cut)

    def _blocks_of(self, state: StateId) -> list[OpenBlock]:
        """Blocks of a state that have rows of the track's partitions."""
        return [b for b in self._blocks.get(state, ()) if b.partitions & self._work.partitions]

    def _is_draining(self, block: OpenBlock) -> bool:
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
            theirs = {s: rows for s in names if (rows := self.common.rebuilt(s, partitions)) is not None}
            for state, rows in theirs.items():
                states.setdefault(state, []).extend(rows)
                whole.setdefault(state, []).extend(rows)
            lacking, mask = names - theirs.keys(), partitions.flags()
            rebuild = StateRebuild(self._work.plan, states=lacking, old=whole, mask=mask, memory=self._memory)
            rebuild.run()
            self._keep(rebuild.kept)
            for state in lacking:
                rows = [RowSet(batch) for batch in rebuild.kept.get(state, ())]
                self.rebuilt.append((state, partitions, rows))
                is_new = self._work.until is None or state in self._fresh
                states.setdefault(state, []).extend(rows if is_new else [r.as_old() for r in rows])
                self._report.rebuilt_rows += sum(map(len, rows))
        self._report.rebuild_s += time.thread_time() - began

    def _given(self, states: States, writer: Writer) -> StepInput:
        """What the operator of the plan works on."""
        return StepInput(
            SiteRows(self._rows, states, self.made),
            emit=writer.write,
            quota=self._quota,
            memory=self._memory,
            owned=self._mine,
            choose=self._chosen,
            emission=self._task.emissions.get(self._work.plan.query.name),
            role=self._role,
            origins=self._origins,
            share=self._answered,
            arrived=self._stop.arrived,
            is_first=self._stop.is_first,
            send=None if self._stop.outbox is None else self._stop.outbox.add,
            common=self.common.stations,
        )

    @property
    def _answered(self) -> AnsweredShare:
        window = self._work.plan.window
        if self._share is not None or window is None:
            return self._share or EVERYTHING
        return left_to_lanes(self._task.hot, window)

    @property
    def _role(self) -> Role:
        if self._part is Part.SPLIT:
            return Role.SPLITS
        until = self._work.until
        return Role.RUNS if until is None or self._task.batch < until else Role.ENDS

    def _tell_stations(self, operator: StationJoin) -> None:
        root = self._work.plan.root
        assert isinstance(root, StationsNode)
        stored = self._blocks_of if self._stop.is_first else None
        tell_stations(self._report, root, operator, stored, self._mine)

    def _chosen(self, options: Sequence[StationRows], vectors: int) -> list[int]:
        seed = f"{self._task.batch} {self._report.site}"
        return self._task.router.choose(tuple(o.state for o in options), vectors, seed=seed)

    def _tell(self, operator: WindowJoin[Any], seconds: float) -> None:
        work, join = self._work, self._join_report
        tell_work(join, operator, seconds)
        abandoned = any(left.query == work.plan.query.name for left in self._report.abandoned)
        join.settled &= not work.after and not work.rebuilds and not abandoned

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
        from_left = bool((self._task.look + self._report.site) % 2)
        tell_edges(join, self._work.plan.edges, self._rows, states, from_left=from_left)

    def _rows_of(self, block: OpenBlock) -> int:
        """Rows of the track's partitions; counted once, for most blocks stay as they are."""
        counted = "rows", self._work.partitions
        return block.rows.derived(counted, lambda: int(block.rows_of[self._mine].sum()))

    @property
    def _join_report(self) -> JoinReport:
        return self._report.joins.setdefault(self._work.plan.query.name, JoinReport())
