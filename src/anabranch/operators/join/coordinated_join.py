"""A join with coordinated routing in one partition: rows that have come meet the units that are joined here.

What they find is a result, or goes on to all places of the next hop of their path.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np
import pyarrow as pa

from anabranch.exchange.address import at_partition
from anabranch.exchange.coordinated_router import Routes
from anabranch.operators.join.evaluated_join import EvaluatedJoin
from anabranch.operators.join.join_evaluator import JoinEvaluator
from anabranch.operators.join.join_results import JoinResults
from anabranch.operators.join.pair_rows import as_rows
from anabranch.operators.join.sources.unit_rows import Probing, UnitRows, by_unit
from anabranch.operators.rows.row_set import RowSet
from anabranch.operators.work_memory import WorkMemory
from anabranch.plan.inputs import HASH
from anabranch.plan.local_plan import LocalPlan
from anabranch.plan.nodes import JoinNode
from anabranch.plan.states.state_id import StateId

Aliases = tuple[str, ...]
Compile = Callable[[Aliases, str], JoinNode]
"""Makes the join of rows of some references with another one."""
Send = Callable[[Aliases, int, pa.RecordBatch], None]
"""Takes rows of some references that go on to a place."""


class CoordinatedJoin(EvaluatedJoin):
    """One query in one partition, for one hop.

    Parameters
    ----------
    partition
        Where this is.
    routes
        Paths of the units of this batch.
    arrived
        By references, the rows that have come, in pieces: the first reference is their origin.
    old
        Rows of each reference that are stored here, of earlier batches and of this one, by state.
    send
        Where rows go on.
    """

    def __init__(
        self,
        plan: LocalPlan,
        *,
        partition: int,
        routes: Routes,
        arrived: Mapping[Aliases, Sequence[RowSet]],
        old: Mapping[StateId, Sequence[RowSet]],
        compiled: Compile,
        emit: Callable[[pa.Table], None],
        send: Send,
        quota: int,
        memory: WorkMemory | None = None,
    ) -> None:
        self._references = len(plan.query.refs)
        self._partition = partition
        self._routes = routes
        self._compiled = compiled
        self._arrived = arrived
        self._old = old
        self._take = send
        super().__init__(JoinEvaluator(plan.query.name, quota=quota, memory=memory))
        self._results = JoinResults(plan, self._evaluator, emit)
        self.met: dict[frozenset[str], tuple[int, int]] = {}
        """By references that a join is about: pairs of rows that could have met, and those that did."""

    def run(self) -> None:
        for inside, pieces in self._arrived.items():
            for rows in pieces:
                for probed, probing in self._by_probed(inside, rows).items():
                    self._run_join(inside, self._compiled(inside, probed), probing)
        self._results.close()

    def _by_probed(self, inside: Aliases, rows: RowSet) -> dict[str, list[Probing]]:
        """By the reference that is next: rows of some units, and the units that they meet here."""
        found: dict[tuple[str, frozenset[int]], list[RowSet]] = {}
        for unit, its in by_unit(rows):
            path = self._routes.path_of(inside[0], unit)
            if len(inside) > len(path.hops):  # nothing is in reach
                continue
            hop = path.hops[len(inside) - 1]
            if units := hop.joined.get(self._partition):
                found.setdefault((hop.alias, units), []).append(its)
        probing: dict[str, list[Probing]] = {}
        for (alias, units), pieces in found.items():
            whole = pieces[0]
            if len(pieces) > 1:
                whole = RowSet(pa.concat_batches([piece.batch for piece in pieces]))
            probing.setdefault(alias, []).append(Probing(whole, units))
        return probing

    def _run_join(self, inside: Aliases, node: JoinNode, probing: list[Probing]) -> None:
        source = UnitRows(probing, self._old.get(node.right.state, ()))
        are_results, made = len(node.aliases) == self._references, 0
        for rows in self._evaluator.rows(node, source, timed=not are_results or self._results.timed):
            made += rows.num_rows
            if are_results:
                self._results.take(rows)
            elif rows.num_rows:
                self._send(inside, node, rows)
        about = frozenset(node.aliases)
        examined, found = self.met.get(about, (0, 0))
        self.met[about] = examined + source.examined(), found + made

    def _send(self, inside: Aliases, node: JoinNode, found: pa.Table) -> None:
        """Let rows go on, a copy to each place of the next hop of their path."""
        references = (*inside, node.right.aliases[0])
        for unit, its in by_unit(RowSet.sorted(as_rows(node, [found]).batch, node.max_time)):
            hop = self._routes.path_of(inside[0], unit).hops[len(inside)]
            at = its.batch.schema.get_field_index(HASH)
            for place in hop.joined:
                there = at_partition(np.full(len(its), place), its.int64s(HASH))
                batch = its.batch.set_column(at, HASH, pa.array(there)).replace_schema_metadata(None)
                self._take(references, place, batch)
