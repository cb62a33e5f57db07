"""What answering an aggregate or DISTINCT holds in memory beside the rows of its state.

An upper bound per row, known from the plan: reached when every group has one row, so that directories of
runs are as long as the block, and when windows end inside runs, so that trees are built.
"""

from __future__ import annotations

from anabranch.operators.group.aggregate_results import summaries_of
from anabranch.operators.group.alive_results import LATEST
from anabranch.operators.group.folds.partial_aggregate import Count, ExactSum
from anabranch.operators.group.windows.window_rows import kept_columns
from anabranch.operators.group.windows.window_rows import summaries as window_summaries
from anabranch.plan.aggregate import WindowNode

_NUMBER = 8
_RUNS = 2 * _NUMBER
_PENDING = _NUMBER
_COMPARED = _NUMBER + 1
"""Codes of a key, with a flag for NULL."""


def held_bytes(node: WindowNode) -> int:
    """Bytes per row of the state of a query."""
    if node.grouped is not None:
        return _gathered(node)
    summaries = dict.fromkeys(s for a in node.aggregates for s in summaries_of(a))
    held = _RUNS + _PENDING + (0 if node.proved else _COMPARED * len(node.keys))
    held += sum(s.bytes_per_row for s in summaries)
    if node.joined and node.distinct:
        return held + LATEST.bytes_per_row
    subtracted = [s for s in summaries if isinstance(s, Count | ExactSum)]
    if node.joined and subtracted:  # once more in the order of deadlines
        held += _copy(node) + _RUNS + sum(s.bytes_per_row for s in subtracted)
    elif node.rows is not None:  # gathered
        held += _copy(node)
    return held


def _gathered(node: WindowNode) -> int:
    """Rows of windows are taken out of the blocks, sorted and folded; of blocks is kept which are due."""
    columns = len(kept_columns(node)) + 4
    return _PENDING + 2 * _NUMBER * columns + sum(s.bytes_per_row for s in window_summaries(node))


def _copy(node: WindowNode) -> int:
    """Hash, time, deadline or sequence, and the columns that keys and aggregates need."""
    columns = {*node.keys, *(a.column for a in node.aggregates if a.column is not None)}
    return _NUMBER * (3 + len(columns))
