"""Rebuilding intermediate states from what is kept: the step of moving state that costs something.

Bottom-up over the states that the plan before did not have (CAPE, section
4.1): all kept rows of one side with all kept rows of the other. In a track that ends, rows that are new
throughout are left out or kept apart, as its joins do (`ending_join`).
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence, Set

import numpy as np
import pyarrow as pa

from anabranch.operators.join.ending_join import read_by_nobody
from anabranch.operators.join.pair_bytes import Pairs
from anabranch.operators.join.window_join import WindowJoin
from anabranch.operators.rows.row_set import RowSet
from anabranch.operators.work_memory import WorkMemory
from anabranch.plan.local_plan import LocalPlan
from anabranch.plan.nodes import JoinNode, Operand
from anabranch.plan.state_id import StateId


class StateRebuild(WindowJoin):
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
        old: Mapping[str, Sequence[RowSet]],
        mask: np.ndarray,
        memory: WorkMemory | None = None,
    ) -> None:
        # The quota is for what a batch matches: a change of plans that nobody asked for must not end a query.
        super().__init__(plan, new={}, old=old, emit=_nothing, quota=sys.maxsize, memory=memory)
        self._states = states
        self._mask = mask
        self._rebuilt: dict[str, list[RowSet]] = {}

    def run(self) -> None:
        for node in self._plan.nodes():
            if isinstance(node, JoinNode) and node.state in self._states:
                self._rebuild(node, node.earlier or node.state, are_new=False)
                if node.fresh is not None and node.fresh not in read_by_nobody(self._plan):
                    self._rebuild(node, node.fresh, are_new=True)

    def _rebuild(self, node: JoinNode, state: str, *, are_new: bool) -> None:
        self._are_new = are_new
        rows = self._kept_rows(node, state)
        is_new = are_new or node.earlier is None
        self._rebuilt[state] = rows if is_new else [piece.as_old() for piece in rows]

    def _pairs(self, node: JoinNode) -> Iterator[Pairs]:
        for left in self._all(node.left):
            mine = left.within(self._mask)
            for right in self._all(node.right):
                if node.earlier is None or self._are_new != (mine.is_old or right.is_old):
                    yield from self._matched(node, mine, right, new_is_left=True)

    def _all(self, node: Operand) -> Iterator[RowSet]:
        for state in node.states if isinstance(node, JoinNode) else (node.state,):
            if state in self._rebuilt:
                yield from self._rebuilt[state]
            elif state not in self._states:
                yield from self._old.get(state, ())


def _nothing(results: pa.Table) -> None:
    raise AssertionError("rebuilding a state gives no results")
