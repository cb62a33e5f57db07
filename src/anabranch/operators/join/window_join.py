"""The window join: a site's plan evaluated on the rows of one batch.

Symmetric, as purge–join–insert (CAPE, section 2.1) on whole batches: the new
rows of a node are (new left ⋈ all of the right) and (old left ⋈ new right); inserting happens when
the batch commits, purging when a block expires. Rows arrive in any order inside the lateness,
because a state only ever loses what no accepted row can reach any more.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

import numpy as np
import pyarrow as pa

from anabranch.exchange.address import PARTITIONS
from anabranch.exchange.partition_counts import partition_counts
from anabranch.operators.group.joined_results import result_rows
from anabranch.operators.join.match import match
from anabranch.operators.join.pair_bytes import Pairs, cut_pairs
from anabranch.operators.join.theta_join import theta_match
from anabranch.operators.rows.expressions import filter_rows, project
from anabranch.operators.rows.row_selection import RowSelection
from anabranch.operators.rows.row_set import RowSet, concat_rows
from anabranch.operators.work_memory import QuotaExceeded, WorkMemory
from anabranch.plan.inputs import DEADLINE, HASH, MAX_TIME
from anabranch.plan.local_plan import LocalPlan
from anabranch.plan.nodes import JoinNode, LeafNode, Operand
from anabranch.plan.state_id import StateId

FLUSH_ROWS = 1 << 20
"""Gathered rows after which predicates run and results leave: bounds memory, amortises calls."""
_HIDDEN = (HASH, MAX_TIME, DEADLINE)
"""Columns of intermediate rows beside those of the query."""
_COUNT = "rows"
"""Column of results without any other: they are still so many."""


class WindowJoin:
    """One query's plan at one site, for one batch.

    Parameters
    ----------
    plan
        The compiled plan.
    new
        New rows of the batch, by input id.
    old
        Sets of rows kept from earlier batches, by state.
    emit
        Takes each table of results.
    quota
        Largest number of pairs a batch may examine.
    memory
        Counts the rows that are kept, and takes those that are many to files.
    given
        New rows of states that another query has made, and keeps.
    """

    def __init__(
        self,
        plan: LocalPlan,
        *,
        new: Mapping[int, RowSet],
        old: Mapping[str, Sequence[RowSet]],
        emit: Callable[[pa.Table], None],
        quota: int,
        memory: WorkMemory | None = None,
        given: Mapping[StateId, Sequence[RowSet]] | None = None,
    ) -> None:
        self._plan = plan
        self._given = given or {}
        self.made: dict[StateId, list[RowSet]] = {}
        """New rows of each intermediate state, as they were probed."""
        self._new = new
        self._old = old
        self._emit = emit
        self._quota = quota
        self._memory = memory or WorkMemory(plan.query.name)
        self.kept: dict[str, list[pa.RecordBatch]] = {}
        """New rows of each intermediate state, and of the state of results that are grouped."""
        self._grouped: list[pa.RecordBatch] = []
        self._grouped_bytes = 0
        self.probes = 0
        self.pairs = 0
        self.pairs_by_partition = np.zeros(PARTITIONS, dtype=np.int64)

    def run(self) -> None:
        root = self._plan.root
        assert isinstance(root, LeafNode | JoinNode)
        if isinstance(root, LeafNode):
            self._emit_results(self._leaf_columns(root))
            return
        for rows in self._joined(root):
            self._emit_results(rows)
        self._keep_results()

    def _is_root(self, node: JoinNode) -> bool:
        """Whether the rows of a node are results."""
        return node is self._plan.root

    def _emit_results(self, rows: pa.Table) -> None:
        if rows.num_rows and self._plan.window is not None:
            batch = result_rows(rows, self._plan.window).batch
            self._memory.count(batch.nbytes)
            self._grouped.append(batch)
            self._grouped_bytes += batch.nbytes
            if self._grouped_bytes >= self._memory.piece:
                self._keep_results(are_full_piece=True)
        elif rows.num_rows:
            self._emit(project(rows, self._plan.query.outputs))

    def _keep_results(self, *, are_full_piece: bool = False) -> None:
        """Keep what is grouped above the join."""
        if self._plan.window is not None and self._grouped:
            rows = RowSet.sorted(concat_rows(self._grouped), MAX_TIME)
            self._grouped, self._grouped_bytes = [], 0
            self._keep(self._plan.window.state, rows, is_full=are_full_piece)

    def _keep(self, state: str, rows: RowSet, *, is_full: bool) -> RowSet:
        """Keep a piece of new rows of a state; returns it as it lies now."""
        if is_full:
            rows = RowSet(self._memory.placed(state, rows.batch))
        self.kept.setdefault(state, []).append(rows.batch)
        return rows

    def _leaf_columns(self, leaf: LeafNode) -> pa.Table:
        rows = self._new.get(leaf.input)
        if rows is None:
            return pa.table({})
        return pa.table({name: rows.batch.column(physical) for name, physical in leaf.names.items()})

    def _new_rows(self, node: Operand) -> list[RowSet]:
        """New rows of a node below the root, in pieces; those of a join are kept as its state."""
        if isinstance(node, JoinNode):
            if (given := self._given.get(node.state)) is not None:
                return list(given)
            self.made[node.state] = self._kept_rows(node, node.state)
            return self.made[node.state]
        assert isinstance(node, LeafNode)
        rows = self._new.get(node.input)
        return [] if rows is None else [rows]

    def _kept_rows(self, node: JoinNode, state: str) -> list[RowSet]:
        """Make the new rows of a join and keep them, in the form its state has."""
        return [
            self._keep(state, as_rows(node, tables), is_full=is_full)
            for tables, is_full in self._memory.pieces(self._joined(node))
        ]

    def _joined(self, node: JoinNode) -> Iterator[pa.Table]:
        """New rows of a join, filtered, in pieces of bounded size."""
        gathered: list[Pairs] = []
        rows = size = 0
        wanted = _wanted(node)
        left, right = (tuple(side.names[c] for c in wanted if c in side.names) for side in node.sides)
        for found in self._pairs(node):
            for pairs, pair_bytes in cut_pairs(found, left, right, most=self._memory.flush):
                if gathered and size + pair_bytes > self._memory.flush:
                    yield self._filtered(node, gathered)
                    gathered, rows, size = [], 0, 0
                gathered.append(pairs)
                rows, size = rows + len(pairs.left_rows), size + pair_bytes
                if rows >= FLUSH_ROWS:
                    yield self._filtered(node, gathered)
                    gathered, rows, size = [], 0, 0
        if gathered:
            yield self._filtered(node, gathered)

    def _filtered(self, node: JoinNode, gathered: list[Pairs]) -> pa.Table:
        rows = self._combined(node, gathered)
        if node.classes:  # a theta join has applied them already
            rows = filter_rows(rows, node.residuals)
        if not self._is_root(node) or self._plan.window is not None:
            return rows.select([*_HIDDEN, *node.columns])
        return rows.select(list(node.columns) or [_COUNT])

    def _pairs(self, node: JoinNode) -> Iterator[Pairs]:
        left, right = self._new_rows(node.left), self._new_rows(node.right)
        self.probes += sum(map(len, left)) + sum(map(len, right))
        for new in left:
            for old in (*self._kept(node.right), *right):
                yield from self._matched(node, new, old, new_is_left=True)
        for new in right:
            for old in self._kept(node.left):
                yield from self._matched(node, new, old, new_is_left=False)

    def _kept(self, node: Operand) -> Iterator[RowSet]:
        """Rows of a node from earlier batches."""
        yield from self._old.get(node.state, ())
        if isinstance(node, JoinNode) and node.earlier is not None:
            yield from self._old.get(node.earlier, ())

    def _matched(self, node: JoinNode, new: RowSet, old: RowSet, *, new_is_left: bool) -> Iterator[Pairs]:
        new_node, old_node = (node.left, node.right) if new_is_left else (node.right, node.left)
        if node.classes:
            pairs = match(
                new.side(new_node, node.index_of(new_node)), old.side(old_node, node.index_of(old_node))
            )
        else:
            pairs = theta_match(node, new_node, new, old_node, old)
        for new_rows, old_rows in pairs:
            self.pairs += len(new_rows)
            self.pairs_by_partition += partition_counts(new.int64s(HASH), new_rows)
            if self.pairs > self._quota:
                raise QuotaExceeded(
                    f"query {self._plan.query.name!r} matched more than {self._quota:,} pairs in one batch "
                    "at one site and was ended: start it under a new name, with narrower windows or "
                    "predicates or a larger quota_pairs"
                )
            left, right = (new, old) if new_is_left else (old, new)
            at = (new_rows, old_rows) if new_is_left else (old_rows, new_rows)
            if node.verify:
                ours, theirs = (
                    [side.names[name] for name in node.verify] for side in (node.left, node.right)
                )
                at = left.agreeing(ours, at[0], right, theirs, at[1])
            if len(at[0]):
                yield Pairs(left, at[0], right, at[1])

    def _combined(self, node: JoinNode, pairs: list[Pairs]) -> pa.Table:
        left = RowSelection((p.left, p.left_rows) for p in pairs)
        right = RowSelection((p.right, p.right_rows) for p in pairs)

        def side(name: str) -> pa.Array:
            if name in node.left.names:
                return left.column(node.left.names[name])
            return right.column(node.right.names[name])

        columns = {name: side(name) for name in _wanted(node)}
        if self._plan.window is not None or not self._is_root(node):
            columns |= _times(node, left, right)
            columns[HASH] = left.column(HASH)
        if (
            self._is_root(node) and not node.columns
        ):  # SELECT of constants only: the number of rows still counts
            columns[_COUNT] = pa.nulls(len(left), pa.bool_())
        return pa.Table.from_arrays(list(columns.values()), list(columns))


def _wanted(node: JoinNode) -> dict[str, None]:
    """Columns that rows of a join are made with: some only for its predicates."""
    return dict.fromkeys((*node.columns, *(node.residual_columns if node.classes else ())))


def as_rows(node: JoinNode, tables: Sequence[pa.Table]) -> RowSet:
    """Rows of a join in the form its state has."""
    names = [*_HIDDEN, *(node.names[c] for c in node.columns)]
    rows = pa.concat_tables(tables).rename_columns(names).combine_chunks().to_batches()[0]
    return RowSet.sorted(rows, MAX_TIME) if node.ordered else RowSet(rows)


def _times(node: JoinNode, left: RowSelection, right: RowSelection) -> dict[str, pa.Array]:
    deadlines = (
        rows.int64s(side.deadline) + side.window_us for rows, side in ((left, node.left), (right, node.right))
    )
    times = left.int64s(node.left.max_time), right.int64s(node.right.max_time)
    return {MAX_TIME: pa.array(np.maximum(*times)), DEADLINE: pa.array(np.minimum(*deadlines))}
