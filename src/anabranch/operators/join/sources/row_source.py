"""What the evaluator of joins asks: by which joins the rows of a node are found, and which sets meet there.

    RowSource.ways(node) ─► Way(join, meetings) ─► Meeting(new, others)
           │                                              │
           └── OperandRows: new(operand), kept(operand)   └──► JoinEvaluator: match, count, verify, combine

A kind of join is a source, and nothing else. They differ in what is new, what is kept, who may meet whom:

===================  ==========================  ============================  ===============================
source               new                         kept                          who meets whom
===================  ==========================  ============================  ===============================
`TreeRows`           arrived, made below         all                           all
`ChainRows`          arrived                     all                           of references before the first:
                                                                               what is kept
the same, split      arrived; first: origins     all                           the same
`EndingRows`         arrived, made below         all, told as old or new       pairs with an old member
`FreshRows`          arrived, made below         since a newer track began     all
`CrossingRows`       arrived; old side: made     old side: old, others: new    in chains
`FirstOldRows`       arrived, but of one         one old, before it new        in chains
                     reference
`RebuiltRows`        nothing                     all, of some partitions       old with old, or new with new
`ArrivedRows`        arrived at the station      at the station                all
===================  ==========================  ============================  ===============================

A further kind of join is a class with `ways`, in a file of its own, and a line in `operators.plan_operator`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol, TypeVar

from anabranch.operators.rows.row_set import RowSet
from anabranch.plan.nodes import JoinNode, LeafNode, Operand
from anabranch.plan.states.state_id import StateId

Node = TypeVar("Node", contravariant=True)


class Meeting(NamedTuple):
    """New rows of one side of a join, and the sets of the other side that they meet."""

    new: RowSet
    others: Iterable[RowSet]
    """Asked for one by one: each is dealt with before the next is taken."""
    new_is_left: bool


class Way(NamedTuple):
    """A join by which rows of a node are found, and who meets in it."""

    join: JoinNode
    meetings: Iterable[Meeting]


class RowSource(Protocol[Node]):
    """Where the rows of some type of node come from."""

    def ways(self, node: Node) -> Iterator[Way]:
        """The joins whose rows, together, are the new rows of a node: each of them once."""


class OperandRows(Protocol):
    """The rows of what a join has on either side."""

    def new(self, node: Operand) -> Iterable[RowSet]:
        """Rows of this batch."""

    def kept(self, node: Operand) -> Iterable[RowSet]:
        """Rows of earlier batches."""


@dataclass(frozen=True, slots=True)
class SiteRows:
    """What a site has: rows of streams that arrived in this batch, and rows of states that it keeps.

    Attributes
    ----------
    arrived
        By input.
    held
        By state.
    made
        By state, new rows of joins: what other queries have made of it, and what is made here.
    """

    arrived: Mapping[int, RowSet]
    held: Mapping[StateId, Sequence[RowSet]]
    made: dict[StateId, Sequence[RowSet]] = field(default_factory=dict)

    def new(self, node: Operand) -> Sequence[RowSet]:
        """Rows of a stream; those of joins are made."""
        assert isinstance(node, LeafNode)
        rows = self.arrived.get(node.input)
        return () if rows is None else (rows,)

    def kept(self, node: Operand) -> Iterator[RowSet]:
        yield from self.held.get(node.state, ())
        if isinstance(node, JoinNode) and node.earlier is not None:
            yield from self.held.get(node.earlier, ())


def symmetric(node: JoinNode, rows: OperandRows) -> Iterator[Meeting]:
    """Purge–join–insert (CAPE, section 2.1) on whole batches: new left ⋈ all right, old left ⋈ new right.

    Inserting happens when the batch commits, purging when a block expires. Rows arrive in any order inside
    the lateness, because a state only ever loses what no accepted row can reach any more.
    """
    left, right = tuple(rows.new(node.left)), tuple(rows.new(node.right))
    for new in left:
        yield Meeting(new, (*rows.kept(node.right), *right), new_is_left=True)
    for new in right:
        yield Meeting(new, rows.kept(node.left), new_is_left=False)
