"""The joins of a query's stations: rows that have arrived meet what is kept on the other side.

What they find is a result, or goes on to another station: in vectors, each of which has its own way.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

import numpy as np
import pyarrow as pa

from anabranch.exchange.address import PARTITIONS
from anabranch.operators.join.pair_bytes import Pairs
from anabranch.operators.join.window_join import WindowJoin
from anabranch.operators.rows.arrays import Int64s
from anabranch.operators.rows.row_set import RowSet
from anabranch.operators.work_memory import WorkMemory
from anabranch.plan.inputs import DEADLINE, HASH, MAX_TIME
from anabranch.plan.local_plan import LocalPlan
from anabranch.plan.nodes import JoinNode, Operand, StationRows, StationsNode

VECTOR_ROWS = 2048
"""Rows that take the same way."""

_NONE = np.zeros(PARTITIONS, dtype=np.int64)

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
        self.arrived = arrived
        self._choose = choose
        self._counts: list[tuple[dict[str, Int64s], dict[str, Int64s]]] = []
        self.sent: dict[str, list[pa.RecordBatch]] = {}
        """Rows that go on, by the state that will keep them."""
        self.found: dict[str, Int64s] = {}
        """By state of rows that have arrived: joined rows that they led to, by partition."""
        self.met: dict[str, Int64s] = {}
        """By state of rows that were there: joined rows to which others led with them."""

    def run(self) -> None:
        for station in self._stations.stations:
            for join in station.joins:
                if any(self._new_rows(side) for side in join.sides):
                    self._run_join(join)
        self._keep_results()

    def _run_join(self, join: JoinNode) -> None:
        """Meet, and count: rows come back to an eddy as virtual tuples."""
        self._counts = [(self.found, {}), (self.met, {})]
        pairs, made = self.pairs, 0
        for rows in self._joined(join):
            made += rows.num_rows
            if self._is_root(join):
                self._emit_results(rows)
            elif rows.num_rows:
                self._send(join, rows)
        kept = made / max(1, self.pairs - pairs)  # predicates are true of some pairs only
        for total, found in self._counts:
            for state, count in found.items():
                total[state] = total.get(state, _NONE) + np.rint(count * kept).astype(np.int64)

    def _matched(self, node: JoinNode, new: RowSet, old: RowSet, *, new_is_left: bool) -> Iterator[Pairs]:
        before = self.pairs_by_partition.copy()
        yield from super()._matched(node, new, old, new_is_left=new_is_left)
        pairs = self.pairs_by_partition - before
        new_side, old_side = node.sides if new_is_left else node.sides[::-1]
        (_, found), (_, met) = self._counts
        found[new_side.state] = found.get(new_side.state, _NONE) + pairs
        theirs = found if old is self.arrived.get(old_side.state) else met
        theirs[old_side.state] = theirs.get(old_side.state, _NONE) + pairs

    def _is_root(self, node: JoinNode) -> bool:
        return len(node.aliases) == len(self._stations.aliases)

    def _new_rows(self, node: Operand) -> list[RowSet]:
        rows = self.arrived.get(node.state)
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
