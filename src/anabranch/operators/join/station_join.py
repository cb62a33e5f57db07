"""The joins of a query's stations: rows that have arrived meet what is kept on the other side.

What they find is a result, or goes on to another station: in vectors, each of which has its own way. Where
some of these stations have the key of the one that found them, they take one of these first, and need not
travel: their partition is the same (Zhou, COSMOS, section 5.2.1: local operations come before remote ones).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np
import pyarrow as pa

from anabranch.exchange.address import PARTITIONS
from anabranch.operators.join.common_stations import CommonStations, FoundForAll
from anabranch.operators.join.evaluated_join import EvaluatedJoin
from anabranch.operators.join.join_evaluator import JoinEvaluator
from anabranch.operators.join.join_results import JoinResults
from anabranch.operators.join.sources.arrived_rows import ArrivedRows
from anabranch.operators.rows.arrays import Int64s
from anabranch.operators.rows.row_set import RowSet
from anabranch.operators.work_memory import WorkMemory
from anabranch.plan.inputs import DEADLINE, HASH, MAX_TIME
from anabranch.plan.local_plan import LocalPlan
from anabranch.plan.nodes import JoinNode, StationRows, StationsNode
from anabranch.plan.states.state_id import StateId
from anabranch.plan.stations.join_tree import Edge

VECTOR_ROWS = 2048
"""Rows that take the same way."""

_NONE = np.zeros(PARTITIONS, dtype=np.int64)

Send = Callable[[StateId, pa.RecordBatch], None]
"""Takes rows that go on, with the state that will keep them."""
Choose = Callable[[Sequence[StationRows], int], Sequence[int]]
"""Of the stations to which rows may go on, one for each of so many vectors."""


class StationJoin(EvaluatedJoin):
    """One query's stations at one site, for one hop.

    Parameters
    ----------
    arrived
        Rows that have arrived in this hop, by state, in pieces.
    old
        Rows that arrived before, in earlier batches or hops of this one, by state.
    choose
        Which way rows take.
    send
        Where they go.
    common
        What other queries have found here for this one, and get from it.
    """

    def __init__(
        self,
        plan: LocalPlan,
        *,
        arrived: Mapping[StateId, Sequence[RowSet]],
        old: Mapping[StateId, Sequence[RowSet]],
        emit: Callable[[pa.Table], None],
        quota: int,
        choose: Choose,
        send: Send,
        memory: WorkMemory | None = None,
        common: CommonStations | None = None,
    ) -> None:
        assert isinstance(plan.root, StationsNode)
        self._stations = plan.root
        self._old = old
        self._choose = choose
        self._take = send
        self._common = common or CommonStations()
        self._for_all = FoundForAll()
        onward = self._stations.onward.values()
        self._shared = frozenset(o.state for options in onward for o in options if o.is_shared)
        self._left_out: set[StateId] = set()
        """Of joins whose rows another query has found: what stands for their states."""
        super().__init__(JoinEvaluator(plan.query.name, quota=quota, memory=memory))
        self._results = JoinResults(plan, self._evaluator, emit)
        self._now: Mapping[StateId, Sequence[RowSet]] = arrived
        """Rows of this round, by state."""
        self.came: dict[StateId, list[RowSet]] = {}
        """Rows of earlier rounds; in the end, of all."""
        self._next: dict[StateId, list[RowSet]] = {}
        self._gathered: dict[StateId, list[pa.Table]] = {}
        """Rows that stay here, and will arrive in the next round."""
        self._gathered_bytes = 0
        self.found: dict[StateId, Int64s] = {}
        """By state of rows that have arrived: joined rows that they led to, by partition."""
        self.met: dict[StateId, Int64s] = {}
        """By state of rows that were there: joined rows to which others led with them."""
        self._round = 0

    def run(self) -> None:
        while self._now:
            for station in self._stations.stations:
                for join in station.joins:
                    rows = ArrivedRows(self._evaluator, self._now, self._old, self.came)
                    if not self._is_found(join) and any(rows.new(side) for side in join.sides):
                        self._run_join(join, rows, station.edge)
            for state, pieces in self._now.items():
                self.came.setdefault(state, []).extend(pieces)
            self._now = self._staying()
        self._results.close()
        self._give()

    def _run_join(self, join: JoinNode, source: ArrivedRows, at: Edge) -> None:
        """Meet, and count: rows come back to an eddy as virtual tuples."""
        are_results = len(join.aliases) == len(self._stations.aliases)
        pairs, made = self.pairs, 0
        for rows in self._evaluator.rows(join, source, timed=not are_results or self._results.timed):
            made += rows.num_rows
            if are_results:
                self._results.take(rows)
            elif rows.num_rows:
                self._send(join, rows, at)
        kept = made / max(1, self.pairs - pairs)  # predicates are true of some pairs only
        led_to = [
            {state: np.rint(count * kept).astype(np.int64) for state, count in counts.items()}
            for counts in (source.found, source.met)
        ]
        self._count(*led_to)
        if self._is_shared(join):
            self._for_all.led_to.setdefault(self._target(join), []).append((led_to[0], led_to[1]))

    def _count(self, found: Mapping[StateId, Int64s], met: Mapping[StateId, Int64s]) -> None:
        for total, more in ((self.found, found), (self.met, met)):
            for state, count in more.items():
                total[state] = total.get(state, _NONE) + count

    def _is_shared(self, join: JoinNode) -> bool:
        """Whether other queries have the rows of a join, at all stations to which these may go on."""
        options = self._stations.onward.get(join.aliases, ())
        return bool(options) and all(option.is_shared for option in options)

    def _target(self, join: JoinNode) -> StateId:
        """What stands for all states that keep rows of a join: the first of them."""
        return self._stations.onward[join.aliases][0].state

    def _is_found(self, join: JoinNode) -> bool:
        """Whether another query has found the rows of a join."""
        if not self._is_shared(join) or not self._common.has(self._target(join)):
            return False
        self._left_out.add(self._target(join))
        return True

    def _give(self) -> None:
        """Let others have what this query has found for them, now that it has got through."""
        for state, rows in self._for_all.travelling:
            self._take(state, rows)
        for target in self._left_out:
            for found, met in self._common.led_to(target):
                self._count(found, met)
        self._for_all.states.update(state for state in self._shared if not self._common.has(state))
        self._common.give(self._for_all)

    def _send(self, join: JoinNode, rows: pa.Table, at: Edge) -> None:
        """Let rows go on, vector by vector."""
        options = self._stations.onward[join.aliases]
        here = [option for option in options if option.key == at.key]
        options = tuple(here) or options
        vectors = -(-rows.num_rows // VECTOR_ROWS)
        chosen = self._choose(options, vectors) if len(options) > 1 else [0] * vectors
        for number, option in enumerate(options):
            mine = [v for v, choice in enumerate(chosen) if choice == number]
            if len(mine) == vectors:
                self._send_to(option, rows, stays=bool(here))
            elif mine:
                parts = [rows.slice(v * VECTOR_ROWS, VECTOR_ROWS) for v in mine]
                self._send_to(option, pa.concat_tables(parts), stays=bool(here))

    def _send_to(self, station: StationRows, rows: pa.Table, *, stays: bool) -> None:
        carried = [name for name in station.columns if name != station.key]
        wanted = rows.select([station.key, MAX_TIME, DEADLINE, *carried])
        names = [HASH, MAX_TIME, DEADLINE, *(station.names[name] for name in carried)]
        wanted = wanted.rename_columns(names)
        self._evaluator.memory.count(wanted.nbytes)
        if not stays:
            batch = wanted.combine_chunks().to_batches()[0]
            if station.is_shared:  # until this query is known to get through
                self._for_all.travelling.append((station.state, batch))
            else:
                self._take(station.state, batch)
            return
        self._gathered.setdefault(station.state, []).append(wanted)
        self._gathered_bytes += wanted.nbytes
        if self._gathered_bytes >= self._evaluator.memory.piece:
            self._gather(are_full=True)

    def _gather(self, *, are_full: bool) -> None:
        """Keep rows that stay here, as their states have them."""
        for state, tables in self._gathered.items():
            rows = pa.concat_tables(tables).combine_chunks().to_batches()[0]
            placed = self._evaluator.keep(state, RowSet.sorted(rows, MAX_TIME), is_full=are_full)
            self._next.setdefault(state, []).append(placed)
        self._gathered, self._gathered_bytes = {}, 0

    def _staying(self) -> dict[StateId, list[RowSet]]:
        """Rows of the next round."""
        self._gather(are_full=False)
        found, self._next = self._next, {}
        for state in self._shared & found.keys():
            self._for_all.staying[self._round, state] = [*found[state]]
        for state in self._shared:
            if theirs := self._common.staying(self._round, state):
                found.setdefault(state, []).extend(theirs)
        self._round += 1
        return found
