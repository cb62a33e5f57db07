"""The multi-way probe: a join of several references that keeps no intermediate state.

New rows of each reference probe the others one after the other, each reference in its own order. A
result with several new rows is found from the first of its references that is new: from there, earlier
references count with their old rows only.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa

from anabranch.operators.join.pair_bytes import Pairs
from anabranch.operators.join.window_join import WindowJoin, as_rows
from anabranch.operators.rows.row_set import RowSet
from anabranch.plan.nodes import JoinNode, LeafNode, Operand, ProbeNode


class MultiwayProbe(WindowJoin):
    """One query's probing plan at one site, for one batch."""

    def run(self) -> None:
        assert isinstance(self._plan.root, ProbeNode)
        for rows in self._found(self._plan.root):
            self._emit_results(rows)
        self._keep_results()

    def _found(self, probe: ProbeNode) -> Iterator[pa.Table]:
        self._rank = {alias: i for i, alias in enumerate(probe.aliases)}
        self._tops = {id(chain) for chain in probe.chains}
        for first, chain in zip(probe.aliases, probe.chains, strict=True):
            self._first = self._rank[first]
            yield from self._joined(chain)

    def _is_root(self, node: JoinNode) -> bool:
        return id(node) in self._tops

    def _pairs(self, node: JoinNode) -> Iterator[Pairs]:
        probed = node.right
        for reached in self._reached(node.left):
            self.probes += len(reached)
            for old in self._kept(probed):
                yield from self._matched(node, reached, old, new_is_left=True)
            if self._rank[probed.aliases[0]] > self._first:
                for new in self._arrived(probed):
                    yield from self._matched(node, reached, new, new_is_left=True)

    def _reached(self, node: Operand) -> Iterator[RowSet]:
        """Rows that have got as far as a node of a chain.

        A piece goes to the end of the chain before the next is made, so that none of them has to be kept.
        """
        if isinstance(node, LeafNode):
            yield from self._arrived(node)
            return
        assert isinstance(node, JoinNode)
        for rows in self._joined(node):
            if rows.num_rows:
                yield as_rows(node, [rows])

    def _arrived(self, node: Operand) -> Sequence[RowSet]:
        """New rows of what is probed."""
        assert isinstance(node, LeafNode)
        rows = self._new.get(node.input)
        return () if rows is None else (rows,)
