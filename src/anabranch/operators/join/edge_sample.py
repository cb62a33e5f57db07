"""Sampled probes: how often rows of two references meet, whether or not the plan joins them directly.

The optimizer must know the selectivity of joins that no plan evaluates at present. A few hundred new
rows of one reference probe what is kept of the other, with the kernel and the windows of a real join.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from anabranch.operators.join.match import match
from anabranch.operators.rows.row_set import RowSet
from anabranch.plan.nodes import JoinNode, Operand

PROBES = 256
"""New rows that probe."""
KEPT = 4096
"""Rows of a block to probe: they may have to be sorted, and on a key of few values each finds many."""
BLOCKS = 2
"""Sets of kept rows to probe, of all ages: a block's turn comes again and again while it is kept."""


def sample_edge(
    edge: JoinNode, probing: Operand, new: RowSet, met: Operand, kept: Sequence[RowSet]
) -> tuple[int, int, int]:
    """Let rows of one side of `edge` probe the other: (rows that probed, rows they could meet, pairs)."""
    probes = _every(new, PROBES)
    state_rows = pairs = 0
    for rows in _spread(kept, BLOCKS):
        sample = _every(rows, KEPT)
        state_rows += len(sample)
        sides = probes.side(probing, edge.index_of(probing)), sample.side(met, edge.index_of(met))
        pairs += sum(len(found) for found, _ in match(*sides))
    return len(probes), state_rows, pairs


def _every(rows: RowSet, most: int) -> RowSet:
    """At most so many rows, evenly spaced; drawn once, so that edges and later samples share the orders."""
    if len(rows) <= most:
        return rows
    return rows.derived(("every", most), lambda: _drawn(rows, most))


def _drawn(rows: RowSet, most: int) -> RowSet:
    return RowSet(rows.batch.take(pa.array(np.linspace(0, len(rows) - 1, most).astype(np.int32))))


def _spread(kept: Sequence[RowSet], most: int) -> Sequence[RowSet]:
    """At most so many sets, evenly spaced."""
    if len(kept) <= most:
        return kept
    return [kept[at] for at in np.linspace(0, len(kept) - 1, most).astype(int)]
