"""The multi-way probe: a join of several references that keeps no intermediate state.

New rows of each reference probe the others one after the other, each reference in its own order. A
result with several new rows is found from the first of its references that is new: from there, earlier
references count with their old rows only.
"""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

from anabranch.operators.rows import RowSet
from anabranch.operators.window_join import WindowJoin
from anabranch.plan.local_plan import JoinNode, LeafNode, LocalNode, ProbeNode


class MultiwayProbe(WindowJoin):
    """One query's probing plan at one site, for one batch."""

    def run(self) -> None:
        root = self._plan.root
        assert isinstance(root, ProbeNode)
        self._rank = {alias: i for i, alias in enumerate(root.aliases)}
        self._roots = {id(chain) for chain in root.chains}
        for first, chain in zip(root.aliases, root.chains, strict=True):
            self._first = self._rank[first]
            for rows in self._joined(chain):
                self._emit_results(rows)
        self._keep_results()

    def _is_root(self, node: JoinNode) -> bool:
        return id(node) in self._roots

    def _pairs(self, node: JoinNode) -> Iterator[pa.RecordBatch]:
        reached, probed = self._reached(node.left), node.right
        assert isinstance(probed, LeafNode)
        if reached is None:
            return
        self.probes += len(reached)
        for old in self._kept(probed):
            yield from self._matched(node, reached, old, new_is_left=True)
        new = self._new.get(probed.input)
        if new is not None and self._rank[probed.aliases[0]] > self._first:
            yield from self._matched(node, reached, new, new_is_left=True)

    def _reached(self, node: LocalNode) -> RowSet | None:
        return self._new.get(node.input) if isinstance(node, LeafNode) else self._kept_rows(node)
