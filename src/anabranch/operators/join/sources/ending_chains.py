"""Chains in a track that ends: crossings, and probing plans that find results with an old row only."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from anabranch.operators.join.join_evaluator import JoinEvaluator
from anabranch.operators.join.sources.chain_rows import ChainRows
from anabranch.operators.join.sources.row_source import OperandRows, SiteRows, Way
from anabranch.operators.rows.row_set import RowSet
from anabranch.plan.nodes import Crossing, JoinNode, LeafNode, Operand, ProbeNode


def crossing_ways(
    evaluator: JoinEvaluator, rows: SiteRows, crossing: Crossing, made: Sequence[RowSet]
) -> Iterator[Way]:
    """Rows of a join that are new throughout on one side and have an old member on the other.

    They are found from new rows of either reference, by way of whichever are fewer: old rows of the other
    side, or new ones of the other reference.

    Parameters
    ----------
    made
        Rows of the old side that this batch has made.
    """
    crossed = CrossingRows(rows, crossing.old.aliases, made)
    old = _size(crossed, crossing.old)
    new = {leaf.aliases: _size(crossed, leaf) for leaf in crossing.new}
    if not old or not all(new.values()):
        return
    chains = [crossing.by_old.chains[0]]
    for leaf, by_old, by_new in zip(
        crossing.new, crossing.by_old.chains[1:], crossing.by_new.chains[1:], strict=True
    ):
        fewest = min(size for aliases, size in new.items() if aliases != leaf.aliases)
        chains.append(by_old if old <= fewest else by_new)
    yield from ChainRows(evaluator, crossed).ways(ProbeNode(crossing.by_old.aliases, tuple(chains)))


def _size(rows: OperandRows, node: LeafNode | JoinNode) -> int:
    return sum(map(len, rows.kept(node))) + sum(map(len, rows.new(node)))


@dataclass(frozen=True, slots=True)
class CrossingRows:
    """Rows of a crossing: old ones of one side, new ones of the references on the other."""

    rows: SiteRows
    old_side: tuple[str, ...]
    made: Sequence[RowSet]

    def new(self, node: Operand) -> Iterable[RowSet]:
        return self.made if node.aliases == self.old_side else self.rows.new(node)

    def kept(self, node: Operand) -> Iterable[RowSet]:
        is_old = node.aliases == self.old_side
        return (rows for rows in self.rows.kept(node) if rows.is_old == is_old)


class EndingChains:
    """Rows of a probing plan at the site of a track that ends."""

    def __init__(self, evaluator: JoinEvaluator, rows: SiteRows) -> None:
        self._evaluator = evaluator
        self._rows = rows

    def ways(self, node: ProbeNode) -> Iterator[Way]:
        for first_old in range(len(node.aliases)):
            rows = FirstOldRows(self._rows, node.aliases, first_old)
            yield from ChainRows(self._evaluator, rows).ways(node)


@dataclass(frozen=True, slots=True)
class FirstOldRows:
    """Rows of results of which one reference is the first that is old: those before it are new."""

    rows: SiteRows
    aliases: tuple[str, ...]
    first_old: int

    def new(self, node: Operand) -> Iterable[RowSet]:
        return () if self._rank(node) == self.first_old else self.rows.new(node)

    def kept(self, node: Operand) -> Iterable[RowSet]:
        rank = self._rank(node)
        if rank > self.first_old:
            return self.rows.kept(node)
        is_old = rank == self.first_old
        return (rows for rows in self.rows.kept(node) if rows.is_old == is_old)

    def _rank(self, node: Operand) -> int:
        return self.aliases.index(node.aliases[0])
