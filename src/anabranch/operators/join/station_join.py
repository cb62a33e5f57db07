"""The joins of a query's stations: rows that have arrived meet what is kept on the other side.

What they find is a result, or goes on to another station: in vectors, each of which has its own way.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np
import pyarrow as pa

from anabranch.exchange.address import PARTITIONS
from anabranch.operators.join.join_evaluator import JoinEvaluator
from anabranch.operators.join.join_results import JoinResults
from anabranch.operators.join.sources.arrived_rows import ArrivedRows
from anabranch.operators.rows.arrays import Int64s
from anabranch.operators.rows.row_set import RowSet
from anabranch.operators.work_memory import WorkMemory
from anabranch.plan.inputs import DEADLINE, HASH, MAX_TIME
from anabranch.plan.local_plan import LocalPlan
from anabranch.plan.nodes import JoinNode, StationRows, StationsNode
from anabranch.plan.state_id import StateId

VECTOR_ROWS = 2048
"""Rows that take the same way."""

_NONE = np.zeros(PARTITIONS, dtype=np.int64)

Choose = Callable[[Sequence[StationRows], int], Sequence[int]]
"""Of the stations to which rows may go on, one for each of so many vectors."""


class StationJoin:
    """One query's stations at one site, for one hop.

    Parameters
    ----------
    arrived
        Rows that have arrived in this hop, by state.
    old
        Rows that arrived before, in earlier batches or hops of this one, by state.
    choose
        Which way rows take.
    """

    def __init__(
        self,
        plan: LocalPlan,
        *,
        arrived: Mapping[StateId, RowSet],
        old: Mapping[StateId, Sequence[RowSet]],
        emit: Callable[[pa.Table], None],
        quota: int,
        choose: Choose,
        memory: WorkMemory | None = None,
    ) -> None:
        assert isinstance(plan.root, StationsNode)
        self._stations = plan.root
        self.arrived = arrived
        self._old = old
        self._choose = choose
        self._evaluator = JoinEvaluator(plan.query.name, quota=quota, memory=memory)
        self._results = JoinResults(plan, self._evaluator, emit)
        self.sent: dict[StateId, list[pa.RecordBatch]] = {}
        """Rows that go on, by the state that will keep them."""
        self.found: dict[StateId, Int64s] = {}
        """By state of rows that have arrived: joined rows that they led to, by partition."""
        self.met: dict[StateId, Int64s] = {}
        """By state of rows that were there: joined rows to which others led with them."""

    @property
    def kept(self) -> dict[StateId, list[pa.RecordBatch]]:
        """Results that are grouped."""
        return self._evaluator.kept

    @property
    def pairs(self) -> int:
        return self._evaluator.pairs

    @property
    def pairs_by_partition(self) -> Int64s:
        return self._evaluator.pairs_by_partition

    def run(self) -> None:
        for station in self._stations.stations:
            for join in station.joins:
                rows = ArrivedRows(self._evaluator, self.arrived, self._old)
                if any(rows.new(side) for side in join.sides):
                    self._run_join(join, rows)
        self._results.close()

    def _run_join(self, join: JoinNode, source: ArrivedRows) -> None:
        """Meet, and count: rows come back to an eddy as virtual tuples."""
        are_results = len(join.aliases) == len(self._stations.aliases)
        pairs, made = self.pairs, 0
        for rows in self._evaluator.rows(join, source, timed=not are_results or self._results.timed):
            made += rows.num_rows
            if are_results:
                self._results.take(rows)
            elif rows.num_rows:
                self._send(join, rows)
        kept = made / max(1, self.pairs - pairs)  # predicates are true of some pairs only
        for total, found in ((self.found, source.found), (self.met, source.met)):
            for state, count in found.items():
                total[state] = total.get(state, _NONE) + np.rint(count * kept).astype(np.int64)

    def _send(self, join: JoinNode, rows: pa.Table) -> None:
        """Let rows go on, vector by vector."""
        options = self._stations.onward[join.aliases]
        vectors = -(-rows.num_rows // VECTOR_ROWS)
        chosen = self._choose(options, vectors) if len(options) > 1 else [0] * vectors
        for number, option in enumerate(options):
            mine = [v for v, choice in enumerate(chosen) if choice == number]
            if len(mine) == vectors:
                self._send_to(option, rows)
            elif mine:
                self._send_to(
                    option, pa.concat_tables([rows.slice(v * VECTOR_ROWS, VECTOR_ROWS) for v in mine])
                )

    def _send_to(self, station: StationRows, rows: pa.Table) -> None:
        carried = [name for name in station.columns if name != station.key]
        wanted = rows.select([station.key, MAX_TIME, DEADLINE, *carried])
        names = [HASH, MAX_TIME, DEADLINE, *(station.names[name] for name in carried)]
        batch = wanted.rename_columns(names).combine_chunks().to_batches()[0]
        self._evaluator.memory.count(batch.nbytes)
        self.sent.setdefault(station.state, []).append(batch)
