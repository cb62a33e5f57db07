"""The rows of chains: a join of several references that keeps no intermediate state.

New rows of each reference probe the others one after the other, each reference in its own order. A
result with several new rows is found from the first of its references that is new: from there, earlier
references count with their old rows only.

Of split keys, some of the new rows are *origins* at a site: results start from these only. They meet all
that is older, and new rows of higher rank.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass

from anabranch.operators.join.join_evaluator import JoinEvaluator
from anabranch.operators.join.pair_rows import as_rows
from anabranch.operators.join.sources.row_source import Meeting, OperandRows, Way
from anabranch.operators.rows.row_set import RowSet
from anabranch.plan.nodes import JoinNode, Operand, ProbeNode


class ChainRows:
    """Rows of a probing plan at one site, in one batch.

    Parameters
    ----------
    rows
        What is probed.
    starts
        What chains start from, where this is something else.
    """

    def __init__(
        self, evaluator: JoinEvaluator, rows: OperandRows, starts: OperandRows | None = None
    ) -> None:
        self._evaluator = evaluator
        self._rows = rows
        self._starts = starts or rows

    def ways(self, node: ProbeNode) -> Iterator[Way]:
        for first, top in enumerate(node.chains):
            start: Operand = top
            for _ in node.chains[1:]:
                assert isinstance(start, JoinNode)
                start = start.left
            chain = _Chain(self._evaluator, self._rows, self._starts, start, self.later(node, first))
            yield from chain.ways(top)

    def later(self, probe: ProbeNode, first: int) -> Collection[str]:
        """References whose new rows are met by what starts from one of them."""
        return frozenset(probe.aliases[first + 1 :])


@dataclass(frozen=True, slots=True)
class _Chain:
    """Rows of the joins of one chain."""

    evaluator: JoinEvaluator
    rows: OperandRows
    starts: OperandRows
    start: Operand
    later: Collection[str]

    def ways(self, node: JoinNode) -> Iterator[Way]:
        yield Way(node, self._meetings(node))

    def _meetings(self, node: JoinNode) -> Iterator[Meeting]:
        for reached in self._reached(node.left):
            yield Meeting(reached, self._probed(node.right), new_is_left=True)

    def _probed(self, node: Operand) -> Iterator[RowSet]:
        yield from self.rows.kept(node)
        if node.aliases[0] in self.later:
            yield from self.rows.new(node)

    def _reached(self, node: Operand) -> Iterator[RowSet]:
        """Rows that have got as far as a node of a chain.

        A piece goes to the end of the chain before the next is made, so that none of them has to be kept.
        """
        if node is self.start:
            yield from self.starts.new(node)
            return
        assert isinstance(node, JoinNode)
        for rows in self.evaluator.rows(node, self):
            if rows.num_rows:
                yield as_rows(node, [rows])
