"""The rows of a join tree: what is made below is new above, and kept."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from anabranch.operators.join.join_evaluator import JoinEvaluator
from anabranch.operators.join.sources.row_source import SiteRows, Way, symmetric
from anabranch.operators.rows.row_set import RowSet
from anabranch.plan.nodes import JoinNode, Operand


class TreeRows:
    """Rows of a tree's nodes at one site, in one batch."""

    def __init__(self, evaluator: JoinEvaluator, rows: SiteRows) -> None:
        self._evaluator = evaluator
        self._rows = rows

    def ways(self, node: JoinNode) -> Iterator[Way]:
        yield Way(node, symmetric(node, self))

    def new(self, node: Operand) -> Iterable[RowSet]:
        if not isinstance(node, JoinNode):
            return self._rows.new(node)
        made = self._rows.made
        if node.state not in made:  # else another query has made and kept them
            made[node.state] = self._evaluator.kept_rows(node, self, node.state)
        return made[node.state]

    def kept(self, node: Operand) -> Iterable[RowSet]:
        return self._rows.kept(node)
