"""The rows of a track that ends: only results with an old row are its own.

The papers' old plan joins everything and marks what is old, and its root leaves out what is new
throughout (CAPE, section 4.2; D-CAPE, section 3.2). Here what is old is known by the
set that rows are in: the states of joins have only rows with an old member. Rows that are new on one side,
and have an old member on the other, are crossings:

    (a b) c    rows of (a b) that are old in a or in b     with all rows of c
               rows of a and b that are both new           with old rows of c: a crossing

New rows of (a b) are made, and kept apart, only where crossings cannot be found by probing
(`ending_chains`). So a loaded site need not go on with all its joins as long as a single old row is left.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain

from anabranch.operators.join.join_evaluator import JoinEvaluator
from anabranch.operators.join.sources.ending_chains import crossing_ways
from anabranch.operators.join.sources.row_source import Meeting, SiteRows, Way, symmetric
from anabranch.operators.rows.row_set import RowSet
from anabranch.plan.nodes import JoinNode, LeafNode, Operand
from anabranch.plan.states.state_id import KEEPS_NOTHING, StateId


class EndingRows:
    """Rows of a tree at the site of a track that ends, in a batch since a newer one began."""

    def __init__(self, evaluator: JoinEvaluator, rows: SiteRows, root: JoinNode) -> None:
        self._evaluator = evaluator
        self._rows = rows
        self._made: dict[StateId, list[RowSet]] = {}
        self._fresh = FreshRows(evaluator, rows, root)

    def ways(self, node: JoinNode) -> Iterator[Way]:
        for side, _, _ in _fresh_sides(node):  # all that is kept is made before the first result
            self._fresh.new(side)
        yield Way(node, map(with_an_old_row, chain(symmetric(node, self), self._crossing(node))))
        for crossing in node.crossings:
            made = self._made.get(crossing.old.state, ())
            yield from crossing_ways(self._evaluator, self._rows, crossing, made)

    def new(self, node: Operand) -> Iterable[RowSet]:
        if not isinstance(node, JoinNode):
            return self._rows.new(node)
        rows = self._evaluator.kept_rows(node, self, node.state)
        self._made[node.state] = [piece.as_old() for piece in rows]
        return self._made[node.state]

    def kept(self, node: Operand) -> Iterable[RowSet]:
        return self._rows.kept(node)

    def _crossing(self, node: JoinNode) -> Iterator[Meeting]:
        """New rows of one side with old ones of the other, where new rows are kept."""
        for side, state, other in _fresh_sides(node):
            made, is_left = self._made.get(other.state, []), side is node.left
            for new in self._fresh.new(side):
                yield Meeting(new, (*self.kept(other), *made), new_is_left=is_left)
            for new in made:
                yield Meeting(new, self._rows.held.get(state, ()), new_is_left=not is_left)


class FreshRows:
    """New rows with new ones: what crossings start from where they are not found by probing."""

    def __init__(self, evaluator: JoinEvaluator, rows: SiteRows, root: JoinNode) -> None:
        self._evaluator = evaluator
        self._rows = rows
        self._unread = read_by_nobody(root)
        self._made: dict[StateId, list[RowSet]] = {}

    def ways(self, node: JoinNode) -> Iterator[Way]:
        yield Way(node, symmetric(node, self))

    def new(self, node: Operand) -> Iterable[RowSet]:
        if not isinstance(node, JoinNode):
            return self._rows.new(node)
        state = node.fresh
        assert state is not None
        if state not in self._made:
            is_read = state not in self._unread
            self._made[state] = self._evaluator.kept_rows(node, self, state, is_read=is_read)
        return self._made[state]

    def kept(self, node: Operand) -> Iterable[RowSet]:
        state = node.fresh if isinstance(node, JoinNode) else node.state
        return (rows for rows in self._rows.held.get(state or KEEPS_NOTHING, ()) if not rows.is_old)


def with_an_old_row(meeting: Meeting) -> Meeting:
    """What meets in a track that ends: new rows with new ones are the newer track's."""
    if meeting.new.is_old:
        return meeting
    return meeting._replace(others=(rows for rows in meeting.others if rows.is_old))


def read_by_nobody(root: JoinNode) -> set[StateId]:
    """States with new rows that only wait for old ones of a stream, which cannot come."""
    return {state for _, state, other in _fresh_sides(root) if isinstance(other, LeafNode)}


def _fresh_sides(node: JoinNode) -> Iterator[tuple[JoinNode, StateId, Operand]]:
    """Sides of a join whose new rows are kept, each with their state, and with the other side."""
    for side, other in ((node.left, node.right), (node.right, node.left)):
        if isinstance(side, JoinNode) and side.fresh is not None:
            yield side, side.fresh, other
