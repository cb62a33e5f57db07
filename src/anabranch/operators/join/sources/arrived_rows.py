"""The rows of a station: those that have arrived in this hop meet each other, and what is kept there."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from anabranch.exchange.address import PARTITIONS
from anabranch.operators.join.join_evaluator import JoinEvaluator
from anabranch.operators.join.sources.row_source import Meeting, Way, symmetric
from anabranch.operators.rows.arrays import Int64s
from anabranch.operators.rows.row_set import RowSet
from anabranch.plan.nodes import JoinNode, Operand
from anabranch.plan.states.state_id import StateId

_NONE = np.zeros(PARTITIONS, dtype=np.int64)


@dataclass(frozen=True, slots=True)
class ArrivedRows:
    """Rows of one of a station's joins at one site, in one hop; counts what they lead to.

    Attributes
    ----------
    found, met
        By state, pairs by partition: of rows that have arrived, and of rows that were there.
    """

    evaluator: JoinEvaluator
    arrived: Mapping[StateId, Sequence[RowSet]]
    held: Mapping[StateId, Sequence[RowSet]]
    came: Mapping[StateId, Sequence[RowSet]] = field(default_factory=dict)
    """Rows that arrived in earlier rounds of this hop."""
    found: dict[StateId, Int64s] = field(default_factory=dict)
    met: dict[StateId, Int64s] = field(default_factory=dict)

    def ways(self, node: JoinNode) -> Iterator[Way]:
        meetings = (m._replace(others=self._counted(node, m)) for m in symmetric(node, self))
        yield Way(node, meetings)

    def new(self, node: Operand) -> Sequence[RowSet]:
        return [rows for rows in self.arrived.get(node.state, ()) if len(rows)]

    def kept(self, node: Operand) -> Sequence[RowSet]:
        return [*self.held.get(node.state, ()), *self.came.get(node.state, ())]

    def _counted(self, node: JoinNode, meeting: Meeting) -> Iterator[RowSet]:
        new_side, old_side = node.sides if meeting.new_is_left else node.sides[::-1]
        for old in meeting.others:
            before = self.evaluator.pairs_by_partition.copy()
            yield old
            pairs = self.evaluator.pairs_by_partition - before
            self.found[new_side.state] = self.found.get(new_side.state, _NONE) + pairs
            is_new = any(old is rows for rows in self.arrived.get(old_side.state, ()))
            theirs = self.found if is_new else self.met
            theirs[old_side.state] = theirs.get(old_side.state, _NONE) + pairs
