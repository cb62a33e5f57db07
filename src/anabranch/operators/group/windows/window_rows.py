"""What windows of GROUP BY keep of the rows of a group: partial aggregates, or rows where these do not do.

    rows        · ··  ·    │ ·   ·  ·  │     ·        event time of one group
    panes     ├────────────┼───────────┼──────────┤   every window is made of whole panes: one row for each
    sessions    ├─────┤  gap  ├──────┤       ├┤      one row for each chain of rows that the gap does not end

A kept row has the time at which its pane or chain begins, and a deadline, the last instant of the last
window that it belongs to: once that is emitted the row may go. Equal hashes are no proof of equal keys, so
that only neighbours with equal keys become one row. What is left apart adds up when it is read.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import pyarrow as pa
from numba import njit

from anabranch.exchange.address import partition_of
from anabranch.operators.group.aggregate_results import summaries_of
from anabranch.operators.group.final_rows import Emission
from anabranch.operators.group.folds.partial_aggregate import Summary
from anabranch.operators.group.folds.row_aggregates import Contents, best_rows, stored_best
from anabranch.operators.group.folds.window_bounds import Ranges
from anabranch.operators.group.group_keys import needs_no_proof, same_keys
from anabranch.operators.group.stored_summaries import Stored
from anabranch.operators.rows.arrays import Int64s
from anabranch.operators.rows.column_codes import Flags
from anabranch.operators.rows.row_set import RowSet, int64s
from anabranch.plan.aggregate import BEST_ROWS, AggregateColumn, WindowNode
from anabranch.plan.inputs import DEADLINE, HASH, MAX_TIME


@dataclass(frozen=True, slots=True)
class Condense:
    """How blocks of a windowed state are merged after a step: without what is emitted, a row per pane."""

    node: WindowNode
    emission: Emission

    def applied_to(self, rows: RowSet) -> pa.RecordBatch:
        """The rows that are still needed.

        A session that goes on has taken its emitted rows along, so that they must not come back in others.
        """
        hashes, deadlines = int64s(rows.batch, HASH), int64s(rows.batch, DEADLINE)
        needed = deadlines >= self.emission.until_by_partition()[partition_of(hashes)]
        batch = rows.batch if needed.all() else rows.batch.filter(pa.array(needed))
        return condensed_again(batch, self.node) if self.node.condensed and batch.num_rows else batch


def summaries(node: WindowNode) -> tuple[Summary, ...]:
    """What is known of a window, beside its rows."""
    return _summaries(node.aggregates)


@cache
def _summaries(aggregates: tuple[AggregateColumn, ...]) -> tuple[Summary, ...]:
    return tuple(dict.fromkeys(s for a in aggregates for s in summaries_of(a)))


def kept_columns(node: WindowNode) -> list[str]:
    """Columns of a windowed state beside hash, time and deadline."""
    if not node.condensed:
        return list(dict.fromkeys((*node.keys, *(column for a in node.aggregates for column in a.inputs))))
    best = [name for a in _best_rows(node) for name in stored_best(a).inputs]
    return [*dict.fromkeys(node.keys), *(name for s in summaries(node) for name in Stored(s).names), *best]


def _best_rows(node: WindowNode) -> list[AggregateColumn]:
    return [aggregate for aggregate in node.aggregates if aggregate.function in BEST_ROWS]


def window_rows(rows: RowSet, node: WindowNode, *, time: str) -> RowSet:
    """New rows, ascending by hash and `time`, as a windowed state keeps them."""
    window = node.grouped
    assert window is not None
    hashes, times = int64s(rows.batch, HASH), int64s(rows.batch, time)
    if not node.condensed:
        columns = {name: rows.batch.column(name) for name in kept_columns(node)}
        return _state_rows(hashes, times, window.last_instant(times), columns)
    if window.session:
        begun = times
        new = _new_sessions(_same_groups(rows, node), times, window.last_instant(times))
    else:
        begun = window.pane_of(times)
        new = ~_same_groups(rows, node) | (np.diff(begun, prepend=begun[:1]) != 0)
    starts = np.flatnonzero(new)
    last = np.append(starts[1:], len(times)) - 1
    deadlines = window.last_instant(times[last] if window.session else begun[starts])
    columns = _condensed(rows.batch, node, starts, stored=False)
    return _state_rows(hashes[starts], begun[starts], deadlines, columns)


def condensed_again(batch: pa.RecordBatch, node: WindowNode) -> pa.RecordBatch:
    """Kept rows of several blocks, in order, one for each pane or chain."""
    assert node.grouped is not None
    rows = RowSet(batch)
    times, deadlines = int64s(batch, MAX_TIME), int64s(batch, DEADLINE)
    same = _same_groups(rows, node)
    if node.grouped.session:
        new = _new_sessions(same, times, deadlines)
    else:
        new = ~same | (np.diff(times, prepend=times[:1]) != 0)
    starts = np.flatnonzero(new)
    if len(starts) == len(times):
        return batch
    latest = np.maximum.reduceat(deadlines, starts)
    columns = _condensed(batch, node, starts, stored=True)
    return _state_rows(int64s(batch, HASH)[starts], times[starts], latest, columns).batch


def in_segments(batch: pa.RecordBatch, starts: Int64s) -> tuple[RowSet, Ranges]:
    """Rows under the number of their segment instead of their hash, and where the segments lie.

    Every segment is a run of its own, so that suffixes answer for all.
    """
    ends = np.append(starts[1:], batch.num_rows)
    numbers = np.repeat(np.arange(len(starts)), ends - starts)
    rows = RowSet(batch.set_column(batch.schema.get_field_index(HASH), HASH, pa.array(numbers)))
    return rows, Ranges(starts, ends, np.ones(len(starts), dtype=np.bool_))


def new_sessions(rows: RowSet, node: WindowNode, *, time: str) -> Flags:
    """Whether each of some kept rows, ascending by hash and time, begins a session."""
    times, deadlines = int64s(rows.batch, time), int64s(rows.batch, DEADLINE)
    new: Flags = _new_sessions(_same_groups(rows, node), times, deadlines)
    return new


def _condensed(
    batch: pa.RecordBatch, node: WindowNode, starts: Int64s, *, stored: bool
) -> dict[str, pa.Array]:
    """Keys and partial aggregates of segments of rows; `stored` where the rows are such themselves."""
    rows, ranges = in_segments(batch, starts)
    at = pa.array(starts)
    columns = {key: batch.column(key).take(at) for key in node.keys}
    for summary in summaries(node):
        reader = Stored(summary)
        known = summary.empty(len(starts))
        (reader if stored else summary).fold(rows, ranges, known)
        columns |= dict(zip(reader.names, reader.columns_of(known), strict=True))
    for aggregate in _best_rows(node):
        kept = stored_best(aggregate)
        held = kept if stored else aggregate
        best = best_rows(held, rows.derived("contents", lambda: Contents.of(rows, ranges)))
        pairs = zip(kept.inputs, held.inputs, strict=True)
        columns |= {new: batch.column(old).take(best) for new, old in pairs}
    return columns


def _state_rows(hashes: Int64s, times: Int64s, deadlines: Int64s, columns: dict[str, pa.Array]) -> RowSet:
    hidden = {HASH: pa.array(hashes), MAX_TIME: pa.array(times), DEADLINE: pa.array(deadlines)}
    return RowSet.known_in_order(pa.record_batch(hidden | columns))


def _same_groups(rows: RowSet, node: WindowNode) -> Flags:
    """Whether a row is of the group of the row before it."""
    hashes = int64s(rows.batch, HASH)
    same = np.zeros(len(hashes), dtype=np.bool_)
    same[1:] = hashes[1:] == hashes[:-1]
    if not needs_no_proof(rows, node):
        at = np.flatnonzero(same)
        same[at] = same_keys(rows, at - 1, rows, at, node.keys)
    return same


@njit(cache=True, nogil=True)
def _new_sessions(same: Any, times: Any, deadlines: Any) -> Any:
    new = np.ones(len(same), dtype=np.bool_)
    reach = np.int64(0)
    for i in range(len(same)):
        if same[i] and times[i] <= reach:
            new[i] = False
            reach = max(reach, deadlines[i])
        else:
            reach = deadlines[i]
    return new
