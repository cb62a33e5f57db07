"""What every join tells of its work: an evaluator makes its pairs and counts them."""

from __future__ import annotations

import pyarrow as pa

from anabranch.operators.join.join_evaluator import JoinEvaluator
from anabranch.operators.rows.arrays import Int64s
from anabranch.plan.states.state_id import StateId


class EvaluatedJoin:
    """A join whose pairs one evaluator makes."""

    def __init__(self, evaluator: JoinEvaluator) -> None:
        self._evaluator = evaluator

    @property
    def kept(self) -> dict[StateId, list[pa.RecordBatch]]:
        """New rows of each state that the join keeps, and of the state of results that are grouped."""
        return self._evaluator.kept

    @property
    def pairs(self) -> int:
        return self._evaluator.pairs

    @property
    def pairs_by_partition(self) -> Int64s:
        return self._evaluator.pairs_by_partition
