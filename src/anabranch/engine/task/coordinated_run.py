"""One query with coordinated routing in one partition, for one hop."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from anabranch.adapt.measures.site_report import DiffusionReport
from anabranch.engine.reports import SiteReport
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
from anabranch.plan.states.state_id import StateId

if TYPE_CHECKING:
    from anabranch.engine.task.slot_task import SlotTask

_PREFIX = "travelling "


def travelling_state(query: str, references: Aliases) -> StateId:
    """What rows are called that go on to the next hop of their path; no state keeps them."""
    return StateId(_PREFIX + json.dumps([query, *references]))


def whose(state: StateId) -> tuple[str, Aliases] | None:
    """The query and the references of rows that travel so; None for rows of stations."""
    if not state.startswith(_PREFIX):
        return None
    query, *references = json.loads(state.removeprefix(_PREFIX))
    return query, tuple(references)


class CoordinatedRun(TrackRun):
    """Runs it; for the rest of the world it is a track.

    Parameters
    ----------
    partition
        The one that is worked on.
    came
        In a later hop: rows that have travelled here, by references.
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
        came: Mapping[Aliases, RowSet] | None = None,
    ) -> None:
        apart = work.within(PartitionSet.of([partition]))
        super().__init__(task, apart, rows, blocks, report, files, part=Part.JOIN)
        self._partition = partition
        self._routes: Routes = task.coordinated[work.plan.query.name]
        self._came = came
        routed = (r for r in task.layout.queries if r.query.name == work.plan.query.name)
        self._routed = next(routed)

    def run(self, writer: Writer) -> None:
        query = self._work.plan.query
        aliases = tuple(ref.alias for ref in query.refs)
        came = self._came
        if came is None:
            came = {}
            for alias in aliases:
                if (rows := self._rows.get(self._routed.input_of(alias))) is not None:
                    came[alias,] = rows
            self._tell_units(came)
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
            quota=self._task.quota_pairs,
            memory=self._memory,
        )
        self._run(operator, writer)
        self.sent = {travelling_state(query.name, names): its for names, its in operator.sent.items()}
        self._tell_met(operator)

    def _compiled(self, inside: Aliases, probed: str) -> JoinNode:
        return self._task.compiler.join_of(self._work.plan.query.name, inside, probed)

    @property
    def _told(self) -> DiffusionReport:
        return self._report.diffusion.setdefault(self._work.plan.query.name, DiffusionReport())

    def _tell_units(self, came: Mapping[Aliases, RowSet]) -> None:
        """Report what has been stored: the table learns which units there are, and of which times."""
        for (alias,), rows in came.items():
            for unit, its in by_unit(rows):
                times = its.int64s(TIME)
                found = len(its), int(times.min()), int(times.max())
                self._told.units[alias, unit % MOST_SEGMENTS] = found
                self._told.stored += len(its)

    def _tell_met(self, operator: CoordinatedJoin) -> None:
        for about, (examined, made) in operator.met.items():
            before = self._told.met.get(about, (0, 0))
            self._told.met[about] = before[0] + examined, before[1] + made
        site_of = self._task.partition_map.as_array()
        for batches in operator.sent.values():
            for batch in batches:
                here = site_of[int(partition_of(batch.column(HASH).to_numpy()[:1])[0])]
                self._told.sent += batch.num_rows if here != self._report.site else 0


def by_partition(rows: Mapping[Aliases, RowSet]) -> Iterator[tuple[int, dict[Aliases, RowSet]]]:
    """Rows that have travelled, apart for each partition."""
    found: dict[int, dict[Aliases, RowSet]] = {}
    for references, its in rows.items():
        partitions = partition_of(np.ascontiguousarray(its.int64s(HASH)))
        bounds = [0, *(np.flatnonzero(np.diff(partitions)) + 1).tolist(), len(partitions)]
        for begin, end in pairwise(bounds):
            mine = found.setdefault(int(partitions[begin]), {})
            mine[references] = RowSet(its.batch.slice(begin, end - begin))
    yield from found.items()
