"""The joins of a query's stations: rows that have arrived meet what is kept on the other side.

What they find is a result, or goes on to another station: in vectors, each of which has its own way.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import pyarrow as pa

from anabranch.operators.join.window_join import WindowJoin
from anabranch.operators.rows.row_set import RowSet
from anabranch.operators.work_memory import WorkMemory
from anabranch.plan.inputs import DEADLINE, HASH, MAX_TIME
from anabranch.plan.local_plan import LocalPlan
from anabranch.plan.nodes import JoinNode, Operand, StationRows, StationsNode

VECTOR_ROWS = 2048
"""Rows that take the same way."""

Choose = Callable[[Sequence[StationRows], int], Sequence[int]]
"""Of the stations to which rows may go on, one for each of so many vectors."""


class StationJoin(WindowJoin):
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
        arrived: Mapping[str, RowSet],
        old: Mapping[str, Sequence[RowSet]],
        emit: Callable[[pa.Table], None],
        quota: int,
        choose: Choose,
        memory: WorkMemory | None = None,
    ) -> None:
        super().__init__(plan, new={}, old=old, emit=emit, quota=quota, memory=memory)
        assert isinstance(plan.root, StationsNode)
        self._stations = plan.root
        self._arrived = arrived
        self._choose = choose
        self.sent: dict[str, list[pa.RecordBatch]] = {}
        """Rows that go on, by the state that will keep them."""
        self.made: dict[tuple[int, tuple[str, ...]], int] = {}
        """By edge and references of the rows that found them: how many were made."""

    def run(self) -> None:
        for station in self._stations.stations:
            for join in station.joins:
                if any(self._new_rows(side) for side in join.sides):
                    self._run_join(station.edge.number, join)
        self._keep_results()

    def _run_join(self, edge: int, join: JoinNode) -> None:
        made = 0
        for rows in self._joined(join):
            made += rows.num_rows
            if self._is_root(join):
                self._emit_results(rows)
            elif rows.num_rows:
                self._send(join, rows)
        self.made[edge, join.aliases] = self.made.get((edge, join.aliases), 0) + made

    def _is_root(self, node: JoinNode) -> bool:
        return len(node.aliases) == len(self._stations.aliases)

    def _new_rows(self, node: Operand) -> list[RowSet]:
        rows = self._arrived.get(node.state)
        return [] if rows is None or not len(rows) else [rows]

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
        self._memory.count(batch.nbytes)
        self.sent.setdefault(station.state, []).append(batch)
