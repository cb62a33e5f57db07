"""The multi-way probe: a join of several references that keeps no intermediate state.

New rows of each reference probe the others one after the other, each reference in its own order. A
result with several new rows is found from the first of its references that is new: from there, earlier
references count with their old rows only.
"""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

from anabranch.operators.rows import RowSet
from anabranch.operators.window_join import Pairs, WindowJoin
from anabranch.plan.local_plan import JoinNode, LeafNode, LocalNode, ProbeNode


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
        reached, probed = self._reached(node.left), node.right
        if reached is None:
            return
        self.probes += len(reached)
        for old in self._kept(probed):
            yield from self._matched(node, reached, old, new_is_left=True)
        if self._rank[probed.aliases[0]] > self._first and (new := self._arrived(probed)) is not None:
            yield from self._matched(node, reached, new, new_is_left=True)

    def _reached(self, node: LocalNode) -> RowSet | None:
        """Rows that have got as far as a node of a chain."""
        return self._arrived(node) if isinstance(node, LeafNode) else self._kept_rows(node)

    def _arrived(self, node: LocalNode) -> RowSet | None:
        """New rows of what is probed."""
        assert isinstance(node, LeafNode)
        return self._new.get(node.input)
