"""The evaluator of joins: rows of a node are made of the sets that meet.

Which sets meet is told by a row source (`row_source`). What happens then is the same for all: pairs are
found, counted, verified, combined, filtered, and leave or are kept in pieces of bounded size.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TypeVar

import numpy as np
import pyarrow as pa

from anabranch.exchange.address import PARTITIONS
from anabranch.exchange.partition_counts import partition_counts
from anabranch.operators.join.match import match
from anabranch.operators.join.pair_bytes import Pairs, cut_pairs
from anabranch.operators.join.pair_rows import as_rows, columns_of, filtered_rows
from anabranch.operators.join.sources.row_source import Meeting, RowSource
from anabranch.operators.join.theta_join import theta_match
from anabranch.operators.rows.row_set import RowSet
from anabranch.operators.work_memory import QuotaExceeded, WorkMemory
from anabranch.plan.inputs import HASH
from anabranch.plan.nodes import JoinNode
from anabranch.plan.states.state_id import StateId

Node = TypeVar("Node")

FLUSH_ROWS = 1 << 20
"""Gathered rows after which predicates run and results leave: bounds memory, amortises calls."""


class JoinEvaluator:
    """Makes the rows of one query's joins at one site, for one batch.

    Parameters
    ----------
    query
        Its name, for messages.
    quota
        Largest number of pairs a batch may examine.
    memory
        Counts the rows that are kept, and takes those that are many to files.
    """

    def __init__(self, query: str, *, quota: int, memory: WorkMemory | None = None) -> None:
        self._query = query
        self._quota = quota
        self.memory = memory or WorkMemory(query)
        self.kept: dict[StateId, list[pa.RecordBatch]] = {}
        """New rows of each state that is kept, in pieces."""
        self.probes = 0
        self.pairs = 0
        self.pairs_by_partition = np.zeros(PARTITIONS, dtype=np.int64)

    def rows(self, node: Node, source: RowSource[Node], *, timed: bool = True) -> Iterator[pa.Table]:
        """New rows of a node, filtered, in pieces of bounded size.

        Parameters
        ----------
        timed
            Whether they carry hash, time and deadline: all do that are kept or joined again.
        """
        for join, meetings in source.ways(node):
            yield from self._joined(join, meetings, timed)

    def kept_rows(
        self, node: JoinNode, source: RowSource[JoinNode], state: StateId, *, is_read: bool = True
    ) -> list[RowSet]:
        """Make the new rows of a join and keep them, in the form its state has.

        Parameters
        ----------
        is_read
            Whether later batches read them; otherwise they are there for this one only.
        """
        pieces = self.memory.pieces(self.rows(node, source))
        return [
            self.keep(state, as_rows(node, tables), is_full=is_full, is_read=is_read)
            for tables, is_full in pieces
        ]

    def keep(self, state: StateId, rows: RowSet, *, is_full: bool, is_read: bool = True) -> RowSet:
        """Keep a piece of new rows of a state; returns it as it lies now."""
        if is_full:
            rows = RowSet(self.memory.placed(state, rows.batch))
        if is_read:
            self.kept.setdefault(state, []).append(rows.batch)
        return rows

    def _joined(self, node: JoinNode, meetings: Iterable[Meeting], timed: bool) -> Iterator[pa.Table]:
        gathered: list[Pairs] = []
        rows = size = 0
        left, right = columns_of(node)
        for found in self._pairs(node, meetings):
            for pairs, pair_bytes in cut_pairs(found, left, right, most=self.memory.flush):
                if gathered and size + pair_bytes > self.memory.flush:
                    yield filtered_rows(node, gathered, timed=timed)
                    gathered, rows, size = [], 0, 0
                gathered.append(pairs)
                rows, size = rows + len(pairs.left_rows), size + pair_bytes
                if rows >= FLUSH_ROWS:
                    yield filtered_rows(node, gathered, timed=timed)
                    gathered, rows, size = [], 0, 0
        if gathered:
            yield filtered_rows(node, gathered, timed=timed)

    def _pairs(self, node: JoinNode, meetings: Iterable[Meeting]) -> Iterator[Pairs]:
        for new, others, new_is_left in meetings:
            self.probes += len(new)
            for old in others:
                yield from self._matched(node, new, old, new_is_left)

    def _matched(self, node: JoinNode, new: RowSet, old: RowSet, new_is_left: bool) -> Iterator[Pairs]:
        new_node, old_node = (node.left, node.right) if new_is_left else (node.right, node.left)
        if node.classes:
            pairs = match(
                new.side(new_node, node.index_of(new_node)), old.side(old_node, node.index_of(old_node))
            )
        else:
            pairs = theta_match(node, new_node, new, old_node, old)
        for new_rows, old_rows in pairs:
            self._count(new, new_rows)
            left, right = (new, old) if new_is_left else (old, new)
            at = (new_rows, old_rows) if new_is_left else (old_rows, new_rows)
            if node.verify:
                ours, theirs = ([side.names[name] for name in node.verify] for side in node.sides)
                at = left.agreeing(ours, at[0], right, theirs, at[1])
            if len(at[0]):
                yield Pairs(left, at[0], right, at[1])

    def _count(self, new: RowSet, new_rows: np.ndarray) -> None:
        self.pairs += len(new_rows)
        self.pairs_by_partition += partition_counts(new.int64s(HASH), new_rows)
        if self.pairs > self._quota:
            raise QuotaExceeded(
                f"query {self._query!r} matched more than {self._quota:,} pairs in one batch "
                "at one site and was ended: start it under a new name, with narrower windows or "
                "predicates or a larger quota_pairs"
            )
