"""Rebuilding intermediate states from what is kept: the step of moving state that costs something.

Bottom-up over the states that the plan before did not have (papers/plan-migration.txt, section
4.1): all kept rows of one side with all kept rows of the other.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import pyarrow as pa

from anabranch.operators.rows import RowSet, rows_in
from anabranch.operators.window_join import WindowJoin
from anabranch.plan.local_plan import JoinNode, LocalNode, LocalPlan


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
        states: frozenset[str],
        old: Mapping[str, Sequence[RowSet]],
        mask: np.ndarray,
        quota: int,
    ) -> None:
        super().__init__(plan, new={}, old=old, emit=_nothing, quota=quota)
        self._states = states
        self._mask = mask
        self._rebuilt: dict[str, list[RowSet]] = {}

    def run(self) -> None:
        for node in self._plan.nodes():
            if isinstance(node, JoinNode) and (state := kept_state(node)) in self._states:
                rows = self._kept_rows(node)
                self._rebuilt[state] = [] if rows is None else [rows]
                if rows is not None:
                    self.kept[state] = rows.batch

    def _pairs(self, node: JoinNode) -> Iterator[pa.RecordBatch]:
        for left in self._all(node.left):
            mine = RowSet(rows_in(left.batch, self._mask))
            for right in self._all(node.right):
                yield from self._matched(node, mine, right, new_is_left=True)

    def _all(self, node: LocalNode) -> Sequence[RowSet]:
        state = kept_state(node)
        return self._rebuilt[state] if state in self._rebuilt else self._old.get(state, ())


def kept_state(node: LocalNode) -> str:
    """The state of a node with the rows from before the batch."""
    return node.earlier or node.state if isinstance(node, JoinNode) else node.state


def _nothing(results: pa.Table) -> None:
    raise AssertionError("rebuilding a state gives no results")
