"""The joins of a track that ends: only results with an old row are its own.

The papers' old plan joins everything and marks what is old, and its root leaves out what is new
throughout (CAPE, section 4.2; D-CAPE, section 3.2). Here what is old is known by the
set that rows are in: the states of joins have only rows with an old member. Rows that are new on one side,
and have an old member on the other, are crossings:

    (a b) c    rows of (a b) that are old in a or in b     with all rows of c
               rows of a and b that are both new           with old rows of c: a crossing

New rows of (a b) are made, and kept apart, only where crossings cannot be found by probing
(`plan.crossing`): from new rows of a and from new rows of b, by way of whichever are fewer, old rows of c or
new ones of the other. So a loaded site need not go on with all its joins as long as a single old row is left.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property

import pyarrow as pa

from anabranch.operators.join.multiway_probe import MultiwayProbe
from anabranch.operators.join.pair_bytes import Pairs
from anabranch.operators.join.window_join import WindowJoin
from anabranch.operators.rows.row_set import RowSet
from anabranch.plan.local_plan import LocalPlan
from anabranch.plan.nodes import Crossing, JoinNode, LeafNode, Operand, ProbeNode


class EndingJoin(WindowJoin):
    """One query's plan at the site of a track that ends, for a batch since a newer one began."""

    def run(self) -> None:
        self._made: dict[str, list[RowSet]] = {}
        self._fresh = FreshJoin(
            self._plan,
            new=self._new,
            old=self._old,
            emit=self._emit,
            quota=self._quota,
            memory=self._memory,
        )
        for node in self._plan.nodes():  # all that is kept is made before the first result
            if isinstance(node, JoinNode) and node is not self._plan.root and node.fresh is not None:
                self._fresh._new_rows(node)
        super().run()
        self._count(self._fresh)
        unread = read_by_nobody(self._plan)
        self.kept |= {state: rows for state, rows in self._fresh.kept.items() if state not in unread}

    def _count(self, other: WindowJoin) -> None:
        self.probes += other.probes
        self.pairs += other.pairs
        self.pairs_by_partition += other.pairs_by_partition

    def _new_rows(self, node: Operand) -> list[RowSet]:
        rows = super()._new_rows(node)
        if isinstance(node, JoinNode):
            rows = self._made[node.state] = [piece.as_old() for piece in rows]
        return rows

    def _pairs(self, node: JoinNode) -> Iterator[Pairs]:
        yield from super()._pairs(node)
        for side, other in ((node.left, node.right), (node.right, node.left)):
            if isinstance(side, JoinNode) and side.fresh is not None:
                yield from self._crossing(node, side, other)

    def _crossing(self, node: JoinNode, side: JoinNode, other: Operand) -> Iterator[Pairs]:
        """New rows of one side with old ones of the other, where new rows are kept."""
        made, is_left = self._made.get(other.state, []), side is node.left
        for new in self._fresh._new_rows(side):
            for old in (*self._kept(other), *made):
                yield from self._matched(node, new, old, new_is_left=is_left)
        for new in made:
            for kept in self._old.get(side.fresh or "", ()):
                yield from self._matched(node, new, kept, new_is_left=not is_left)

    def _joined(self, node: JoinNode) -> Iterator[pa.Table]:
        yield from super()._joined(node)
        for crossing in node.crossings:
            probe = CrossingProbe(
                self._plan,
                new=self._new,
                old=self._old,
                emit=self._emit,
                quota=self._quota - self.pairs,
                memory=self._memory,
            )
            made = self._made.get(crossing.old.state, ())
            yield from probe.rows(crossing, made, are_results=self._is_root(node))
            self._count(probe)

    def _matched(self, node: JoinNode, new: RowSet, old: RowSet, *, new_is_left: bool) -> Iterator[Pairs]:
        if new.is_old or old.is_old:
            yield from super()._matched(node, new, old, new_is_left=new_is_left)


def read_by_nobody(plan: LocalPlan) -> set[str | None]:
    """States with new rows that only wait for old ones of a stream, which cannot come."""
    root = plan.root
    assert isinstance(root, JoinNode)
    sides = ((root.left, root.right), (root.right, root.left))
    return {a.fresh for a, b in sides if isinstance(a, JoinNode) and isinstance(b, LeafNode)}


class FreshJoin(WindowJoin):
    """New rows with new ones: what crossings start from where they are not found by probing."""

    @cached_property
    def _made(self) -> dict[str, list[RowSet]]:
        return {}

    def _new_rows(self, node: Operand) -> list[RowSet]:
        if isinstance(node, LeafNode):
            return super()._new_rows(node)
        assert isinstance(node, JoinNode)
        assert node.fresh is not None
        if node.fresh not in self._made:
            self._made[node.fresh] = self._kept_rows(node, node.fresh)
        return self._made[node.fresh]

    def _kept(self, node: Operand) -> Iterator[RowSet]:
        state = node.fresh if isinstance(node, JoinNode) else node.state
        return (rows for rows in self._old.get(state or "", ()) if not rows.is_old)


class CrossingProbe(MultiwayProbe):
    """Rows of a join that are new throughout on one side and have an old member on the other."""

    def rows(self, crossing: Crossing, made: Sequence[RowSet], *, are_results: bool) -> Iterator[pa.Table]:
        """All of them that have a row of this batch.

        Parameters
        ----------
        made
            Rows of the old side that this batch has made.
        are_results
            Whether they are results, not rows of a state.
        """
        self._old_side, self._made, self._are_results = crossing.old.aliases, made, are_results
        old = sum(map(len, self._kept(crossing.old))) + sum(map(len, made))
        new = {leaf.aliases: self._size(leaf) for leaf in crossing.new}
        if not old or not all(new.values()):
            return
        chains = [crossing.by_old.chains[0]]
        for leaf, by_old, by_new in zip(
            crossing.new, crossing.by_old.chains[1:], crossing.by_new.chains[1:], strict=True
        ):
            fewest = min(size for aliases, size in new.items() if aliases != leaf.aliases)
            chains.append(by_old if old <= fewest else by_new)
        yield from self._found(ProbeNode(crossing.by_old.aliases, tuple(chains)))

    def _size(self, leaf: LeafNode) -> int:
        return sum(map(len, self._kept(leaf))) + sum(map(len, self._arrived(leaf)))

    def _is_root(self, node: JoinNode) -> bool:
        return self._are_results and super()._is_root(node)

    def _reached(self, node: Operand) -> Iterator[RowSet]:
        return iter(self._made) if node.aliases == self._old_side else super()._reached(node)

    def _arrived(self, node: Operand) -> Sequence[RowSet]:
        return self._made if node.aliases == self._old_side else super()._arrived(node)

    def _kept(self, node: Operand) -> Iterator[RowSet]:
        is_old = node.aliases == self._old_side
        return (rows for rows in super()._kept(node) if rows.is_old == is_old)


class EndingProbe(MultiwayProbe):
    """One query's probing plan at the site of a track that ends.

    Results are told apart by the first of their references that is old: those before it are new.
    """

    def run(self) -> None:
        assert isinstance(self._plan.root, ProbeNode)
        for first_old in range(len(self._plan.root.aliases)):
            self._first_old = first_old
            super().run()

    def _arrived(self, node: Operand) -> Sequence[RowSet]:
        return () if self._rank[node.aliases[0]] == self._first_old else super()._arrived(node)

    def _kept(self, node: Operand) -> Iterator[RowSet]:
        rank = self._rank[node.aliases[0]]
        for rows in super()._kept(node):
            if rank > self._first_old or rows.is_old == (rank == self._first_old):
                yield rows
