"""One query with coordinated routing in one partition, for one hop."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from anabranch.adapt.measures.site_report import DiffusionReport
from anabranch.engine.reports import SiteReport
from anabranch.engine.task.arrival.outbox import Outbox
from anabranch.engine.task.blocks.block_writer import BlockWriter
from anabranch.engine.task.blocks.open_blocks import OpenBlock
from anabranch.engine.task.results.result_files import Writer
from anabranch.engine.task.sites.site_work import TrackWork
from anabranch.engine.task.track_run import Part, TrackRun
from anabranch.exchange.address import partition_of
from anabranch.exchange.coordinated_router import Routes
from anabranch.exchange.coordinated_table import MOST_SEGMENTS
from anabranch.exchange.partition_set import PartitionSet
from anabranch.operators.join.coordinated_join import Aliases, CoordinatedJoin
from anabranch.operators.join.sources.unit_rows import by_unit
from anabranch.operators.rows.row_set import RowSet
from anabranch.plan.inputs import HASH, TIME
from anabranch.plan.nodes import JoinNode
from anabranch.plan.states.state_id import StateId, StateKind

if TYPE_CHECKING:
    from anabranch.engine.task.slot_task import SlotTask


@lru_cache(maxsize=1024)
def travelling_state(query: str, references: Aliases) -> StateId:
    """What rows are called that go on to the next hop of their path; no state keeps them."""
    return StateId.of(StateKind.TRAVELLING, json.dumps([query, *references]), ())


def whose(state: StateId) -> tuple[str, Aliases]:
    """The query and the references of rows that travel so."""
    query, *references = json.loads(state.label)
    return query, tuple(references)


class CoordinatedRun(TrackRun):
    """Runs it; for the rest of the world it is a track.

    Parameters
    ----------
    partition
        The one that is worked on.
    outbox
        Where rows go on.
    came
        In a later hop: rows that have travelled here, by references, in pieces.
    """

    def __init__(
        self,
        task: SlotTask,
        work: TrackWork,
        partition: int,
        rows: Mapping[int, RowSet],
        blocks: Mapping[StateId, Sequence[OpenBlock]],
        report: SiteReport,
        files: BlockWriter,
        outbox: Outbox,
        came: Mapping[Aliases, Sequence[RowSet]] | None = None,
    ) -> None:
        apart = work.within(PartitionSet.of([partition]))
        super().__init__(task, apart, rows, blocks, report, files, part=Part.JOIN)
        self._partition = partition
        self._outbox = outbox
        self._routes: Routes = task.coordinated[work.plan.query.name]
        self._came = came
        routed = (r for r in task.layout.queries if r.query.name == work.plan.query.name)
        self._routed = next(routed)

    def run(self, writer: Writer) -> None:
        query = self._work.plan.query
        aliases = tuple(ref.alias for ref in query.refs)
        came = self._came
        if came is None:
            inputs = {alias: self._routed.input_of(alias) for alias in aliases}
            new = {alias: self._rows[source] for alias, source in inputs.items() if source in self._rows}
            self._tell_units(new)
            came = {(alias,): [rows] for alias, rows in new.items()}
        old: dict[StateId, list[RowSet]] = {}
        for alias in aliases:
            source = self._routed.input_of(alias)
            state = self._task.layout.inputs[source].state
            old[state] = [self._apart(block) for block in self._blocks_of(state)]
            if self._came is None and source in self._rows:
                old[state].append(self._rows[source])
        operator = CoordinatedJoin(
            self._work.plan,
            partition=self._partition,
            routes=self._routes,
            arrived=came,
            old=old,
            compiled=self._compiled,
            emit=writer.write,
            send=self._send,
            quota=self._task.quota_pairs,
            memory=self._memory,
        )
        self._run(operator, writer)
        self._tell_met(operator)

    def discard(self) -> None:
        super().discard()
        query = self._work.plan.query.name
        on_paths = (state for state in self._outbox.states() if state.kind is StateKind.TRAVELLING)
        self._outbox.discard(state for state in on_paths if whose(state)[0] == query)

    def _send(self, references: Aliases, place: int, rows: pa.RecordBatch) -> None:
        self._outbox.add(travelling_state(self._work.plan.query.name, references), rows)
        is_elsewhere = self._task.partition_map.site_of_partition[place] != self._report.site
        self._told.sent += rows.num_rows if is_elsewhere else 0

    def _compiled(self, inside: Aliases, probed: str) -> JoinNode:
        return self._task.compiler.join_of(self._work.plan.query.name, inside, probed)

    @property
    def _told(self) -> DiffusionReport:
        return self._report.diffusion.setdefault(self._work.plan.query.name, DiffusionReport())

    def _tell_units(self, new: Mapping[str, RowSet]) -> None:
        """Report what has been stored: the table learns which units there are, and of which times."""
        for alias, rows in new.items():
            for unit, its in by_unit(rows):
                times = its.int64s(TIME)
                found = len(its), int(times.min()), int(times.max())
                self._told.units[alias, unit % MOST_SEGMENTS] = found
                self._told.stored += len(its)

    def _tell_met(self, operator: CoordinatedJoin) -> None:
        for about, (examined, made) in operator.met.items():
            before = self._told.met.get(about, (0, 0))
            self._told.met[about] = before[0] + examined, before[1] + made


def by_partition(pieces: Iterable[RowSet]) -> Iterator[tuple[int, RowSet]]:
    """Rows that have travelled, apart for each partition; nothing is copied."""
    for rows in pieces:
        partitions = partition_of(np.ascontiguousarray(rows.int64s(HASH)))
        bounds = [0, *(np.flatnonzero(np.diff(partitions)) + 1).tolist(), len(partitions)]
        for begin, end in pairwise(bounds):
            yield int(partitions[begin]), RowSet(rows.batch.slice(begin, end - begin))
