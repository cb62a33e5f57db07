"""Where the results of a join go: out at once, or into a state, to be grouped once they are final."""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa

from anabranch.operators.group.joined_results import result_rows
from anabranch.operators.join.join_evaluator import JoinEvaluator
from anabranch.operators.rows.expressions import project
from anabranch.operators.rows.row_set import RowSet, concat_rows
from anabranch.plan.inputs import MAX_TIME
from anabranch.plan.local_plan import LocalPlan


class JoinResults:
    """Takes the results of one query's joins at one site, in one batch.

    Parameters
    ----------
    evaluator
        Keeps those that are grouped.
    emit
        Takes each table of the others.
    """

    def __init__(self, plan: LocalPlan, evaluator: JoinEvaluator, emit: Callable[[pa.Table], None]) -> None:
        self._plan = plan
        self._evaluator = evaluator
        self._emit = emit
        self._grouped: list[pa.RecordBatch] = []
        self._grouped_bytes = 0

    @property
    def timed(self) -> bool:
        """Whether results need hash, time and deadline: those that are grouped do."""
        return self._plan.window is not None

    def take(self, rows: pa.Table) -> None:
        if rows.num_rows and self._plan.window is not None:
            batch = result_rows(rows, self._plan.window).batch
            self._evaluator.memory.count(batch.nbytes)
            self._grouped.append(batch)
            self._grouped_bytes += batch.nbytes
            if self._grouped_bytes >= self._evaluator.memory.piece:
                self._keep(is_full=True)
        elif rows.num_rows:
            self._emit(project(rows, self._plan.query.outputs))

    def close(self) -> None:
        """There are no more."""
        self._keep(is_full=False)

    def _keep(self, *, is_full: bool) -> None:
        if self._plan.window is not None and self._grouped:
            rows = RowSet.sorted(concat_rows(self._grouped), MAX_TIME)
            self._grouped, self._grouped_bytes = [], 0
            self._evaluator.keep(self._plan.window.state, rows, is_full=is_full)
