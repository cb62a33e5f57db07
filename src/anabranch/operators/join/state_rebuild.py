"""Rebuilding intermediate states from what is kept: the step of moving state that costs something.

Bottom-up over the states that the plan before did not have (CAPE, section
4.1): all kept rows of one side with all kept rows of the other. In a track that ends, rows that are new
throughout are left out or kept apart, as its joins do (`ending_rows`).
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from anabranch.operators.join.join_evaluator import JoinEvaluator
from anabranch.operators.join.sources.ending_rows import read_by_nobody
from anabranch.operators.join.sources.row_source import Meeting, Way
from anabranch.operators.rows.row_set import RowSet
from anabranch.operators.work_memory import WorkMemory
from anabranch.plan.local_plan import LocalPlan
from anabranch.plan.nodes import JoinNode, Operand
from anabranch.plan.states.state_id import StateId


class StateRebuild:
    """Computes states of a plan from its kept rows.

    Parameters
    ----------
    states
        The states to rebuild; all others are as they should be.
    mask
        Which partitions to rebuild them for.
    """

    def __init__(
        self,
        plan: LocalPlan,
        *,
        states: Set[StateId],
        old: Mapping[StateId, Sequence[RowSet]],
        mask: np.ndarray,
        memory: WorkMemory | None = None,
    ) -> None:
        # The quota is for what a batch matches: a change of plans that nobody asked for must not end a query.
        self._evaluator = JoinEvaluator(plan.query.name, quota=sys.maxsize, memory=memory)
        self._unread = read_by_nobody(plan.root) if isinstance(plan.root, JoinNode) else set()
        self._nodes = [n for n in plan.nodes() if isinstance(n, JoinNode) and n.state in states]
        self._held = {state: rows for state, rows in old.items() if state not in states}
        self._mask = mask

    @property
    def kept(self) -> dict[StateId, list[pa.RecordBatch]]:
        """Rows of the states."""
        return self._evaluator.kept

    def run(self) -> None:
        for node in self._nodes:
            self._rebuild(node, node.earlier or node.state, are_new=False)
            if node.fresh is not None and node.fresh not in self._unread:
                self._rebuild(node, node.fresh, are_new=True)

    def _rebuild(self, node: JoinNode, state: StateId, *, are_new: bool) -> None:
        rows = self._evaluator.kept_rows(node, RebuiltRows(self._held, self._mask, are_new), state)
        is_new = are_new or node.earlier is None
        self._held[state] = rows if is_new else [piece.as_old() for piece in rows]


@dataclass(frozen=True, slots=True)
class RebuiltRows:
    """Rows of states that are computed from others: nothing is new, all that is kept meets.

    Attributes
    ----------
    held
        By state, rows that are kept or have been computed.
    are_new
        In a track that ends: whether the rows to compute are new throughout, or have an old member.
    """

    held: Mapping[StateId, Sequence[RowSet]]
    mask: np.ndarray
    are_new: bool

    def ways(self, node: JoinNode) -> Iterator[Way]:
        yield Way(node, self._meetings(node))

    def _meetings(self, node: JoinNode) -> Iterator[Meeting]:
        for left in self.kept(node.left):
            mine = left.within(self.mask)
            others = (rows for rows in self.kept(node.right) if self.belongs(node, mine, rows))
            yield Meeting(mine, others, new_is_left=True)

    def kept(self, node: Operand) -> Iterator[RowSet]:
        for state in node.states if isinstance(node, JoinNode) else (node.state,):
            yield from self.held.get(state, ())

    def belongs(self, node: JoinNode, left: RowSet, right: RowSet) -> bool:
        """Whether rows of two sets make rows of the state that is computed."""
        return node.earlier is None or self.are_new != (left.is_old or right.is_old)
