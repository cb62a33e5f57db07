"""The window join: a query's plan, with some row source, on the rows of one batch at one site."""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar

import pyarrow as pa

from anabranch.operators.join.evaluated_join import EvaluatedJoin
from anabranch.operators.join.join_evaluator import JoinEvaluator
from anabranch.operators.join.join_results import JoinResults
from anabranch.operators.join.sources.row_source import RowSource
from anabranch.operators.work_memory import WorkMemory
from anabranch.plan.local_plan import LocalPlan

Node = TypeVar("Node")


class WindowJoin(EvaluatedJoin, Generic[Node]):
    """One query's plan at one site, for one batch.

    Parameters
    ----------
    plan
        The compiled plan.
    root
        The node whose rows are results.
    source_of
        Makes its row source, with the evaluator that makes rows of joins below it.
    emit
        Takes each table of results.
    quota
        Largest number of pairs a batch may examine.
    memory
        Counts the rows that are kept, and takes those that are many to files.
    """

    def __init__(
        self,
        plan: LocalPlan,
        root: Node,
        source_of: Callable[[JoinEvaluator], RowSource[Node]],
        *,
        emit: Callable[[pa.Table], None],
        quota: int,
        memory: WorkMemory | None = None,
    ) -> None:
        self._root = root
        super().__init__(JoinEvaluator(plan.query.name, quota=quota, memory=memory))
        self._source = source_of(self._evaluator)
        self._results = JoinResults(plan, self._evaluator, emit)

    def run(self) -> None:
        for rows in self._evaluator.rows(self._root, self._source, timed=self._results.timed):
            self._results.take(rows)
        self._results.close()

    @property
    def probes(self) -> int:
        """New rows that looked for others."""
        return self._evaluator.probes
