"""Sampled probes: how often rows of two references meet, whether or not the plan joins them directly.

The optimizer must know the selectivity of joins that no plan evaluates at present. A few hundred new
rows of one reference probe what is kept of the other, with the kernel and the windows of a real join.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from anabranch.operators.join.match import match
from anabranch.operators.join.pair_bytes import Pairs
from anabranch.operators.join.pair_rows import filtered_rows
from anabranch.operators.join.theta_join import theta_match
from anabranch.operators.rows.row_set import RowSet
from anabranch.plan.cost.edge_count import EdgeCount
from anabranch.plan.nodes import JoinNode, Operand

PROBES = 256
"""New rows that probe."""
KEPT = 4096
"""Rows of a block to probe: they may have to be sorted, and on a key of few values each finds many."""
KEPT_WITHOUT_KEY = 1024
"""Likewise where every row is compared with every other."""
CHECKED = 4096
"""Pairs of which it is seen whether they satisfy predicates."""
BLOCKS = 2
"""Sets of kept rows to probe, of all ages: a block's turn comes again and again while it is kept."""


def sample_edge(
    edge: JoinNode, probing: Operand, new: RowSet, met: Operand, kept: Sequence[RowSet]
) -> EdgeCount:
    """Let rows of one side of `edge` probe the other."""
    probes = _every(new, PROBES)
    count = EdgeCount()
    for rows in _spread(kept, BLOCKS):
        sample = _every(rows, KEPT if edge.classes else KEPT_WITHOUT_KEY)
        found, passed = _found(edge, probing, probes, met, sample)
        count = count.and_also(EdgeCount(len(probes) * len(sample), found, passed))
    return count


def _found(edge: JoinNode, probing: Operand, probes: RowSet, met: Operand, sample: RowSet) -> tuple[int, int]:
    """Pairs, and how many of them satisfy the edge's predicates."""
    if not edge.classes:
        found = sum(len(rows) for rows, _ in theta_match(edge, probing, probes, met, sample))
        return found, found
    sides = probes.side(probing, edge.index_of(probing)), sample.side(met, edge.index_of(met))
    pairs = list(match(*sides))
    found = sum(len(rows) for rows, _ in pairs)
    if not found or not edge.residuals:
        return found, found
    new_rows, old_rows = (np.concatenate(rows)[:: -(-found // CHECKED)] for rows in zip(*pairs, strict=True))
    checked = Pairs(probes, new_rows, sample, old_rows)
    if probing is not edge.left:
        checked = Pairs(sample, old_rows, probes, new_rows)
    passed = filtered_rows(edge, [checked], timed=False).num_rows
    return found, round(passed * found / len(new_rows))


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
