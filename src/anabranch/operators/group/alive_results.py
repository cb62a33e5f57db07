"""Aggregates over the results of a join that are there at some time: begun, and not past their deadline.

    ├── time ─────── deadline ──┤            counts at T
         ├───────┤                           is over at T
                        ├───────────────┤    has not begun
    ────────────────────▲───────────────────► event time
                        T

Results differ in how long they live, so that those alive at T are no range of positions. What can be
subtracted (counts, exact sums) is all that have begun less all that are over: two ranges, one in the order
of times, one in that of deadlines. For the rest, each result is added to the few nodes of a binary tree over
the instants that tile its life, and each instant folds the nodes above it: a logarithm on either side.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from anabranch.operators.group.final_rows import FinalRows
from anabranch.operators.group.folds.partial_aggregate import Accumulator, Count, ExactSum, Least, Summary
from anabranch.operators.group.folds.window_bounds import Ranges, positions_in, window_bounds
from anabranch.operators.rows.arrays import Int64s
from anabranch.operators.rows.column_codes import Flags
from anabranch.operators.rows.row_set import RowSet, int64s
from anabranch.plan.inputs import DEADLINE, HASH, TIME
from anabranch.plan.logical import UNBOUNDED_US

PIECE_ROWS = 1 << 18
"""Results that are taken out of a block at a time: bounds memory."""
LATEST = Least(DEADLINE, largest=True)
"""When the last of some results is over."""


@dataclass(frozen=True, slots=True)
class Instants:
    """Distinct pairs of group and time at which final results are answered."""

    rows: FinalRows
    """One result of each."""
    of_result: Int64s
    """Per result the number of its instant."""

    @classmethod
    def of(cls, rows: FinalRows) -> Instants:
        new = (rows.hashes[1:] != rows.hashes[:-1]) | (rows.times[1:] != rows.times[:-1])
        first = np.append(np.ones(min(len(rows), 1), dtype=bool), new)
        return cls(rows.at(first), np.cumsum(first) - 1)


def fold_alive(
    rows: FinalRows, window_us: int, summaries: Iterable[Summary], charge: Callable[[int], None]
) -> dict[Summary, Accumulator]:
    """Aggregate what is alive in the group of each row at its time.

    Parameters
    ----------
    rows
        Instants, no two of them the same.
    window_us
        No result lives longer than that.
    charge
        Told how many rows will be gathered, before they are.
    """
    known = {s: s.empty(len(rows)) for s in summaries}
    subtracted = [s for s in known if isinstance(s, Count | ExactSum)]
    if subtracted:
        _fold_differences(rows, {summary: known[summary] for summary in subtracted})
    if others := known.keys() - set(subtracted):
        for life in _lives(rows, window_us):
            at, nodes = _covering(life.first, life.last, len(rows))
            charge(len(at))
            covered = _by_node(life.block, life.position[at], nodes)
            for ranges in _paths(int64s(covered.batch, HASH), len(rows)):
                for other in others:
                    other.fold(covered, ranges, known[other])
    return known


def none_before(rows: FinalRows, window_us: int) -> Flags:
    """Whether nothing of a row's group that began before it is still there at its time."""
    latest = LATEST.empty(len(rows))
    for block in rows.blocks:
        before = window_bounds(
            block, of_hashes=rows.hashes, first=rows.times - window_us, last=rows.times - 1
        )
        LATEST.fold(block, before, latest)
    found: Flags = ~latest < rows.times  # the codes of a maximum are complements
    return found


def _fold_differences(rows: FinalRows, into: Mapping[Count | ExactSum, Int64s]) -> None:
    """Add all that have begun, and take off all that are over: a result that is over has begun."""
    ever = np.full(len(rows), -UNBOUNDED_US)
    over = {summary: summary.empty(len(rows)) for summary in into}
    for block in rows.blocks:
        by_deadline = _by_deadline(block)
        begun = window_bounds(block, of_hashes=rows.hashes, first=ever, last=rows.times)
        ended = window_bounds(by_deadline, of_hashes=rows.hashes, first=ever, last=rows.times - 1)
        for summary, found in into.items():
            summary.fold(block, begun, found)
            summary.fold(by_deadline, ended, over[summary])
    for summary, found in into.items():
        found -= over[summary]


def _by_deadline(block: RowSet) -> RowSet:
    """The rows of a block in the order of their deadlines, which stand where the times do."""

    def ordered() -> RowSet:
        names = block.batch.schema.names
        others = [name for name in names if name not in (TIME, DEADLINE)]
        batch = pa.record_batch(
            [block.batch.column(DEADLINE), *(block.batch.column(name) for name in others)],
            names=[TIME, *others],
        )
        return RowSet.sorted(batch, TIME)

    return block.derived("by deadline", ordered)


@dataclass(frozen=True, slots=True)
class _Lives:
    """Results of one block, each with the instants [first, last) at which it is alive."""

    block: RowSet
    position: Int64s
    first: Int64s
    last: Int64s


def _lives(rows: FinalRows, window_us: int) -> Iterator[_Lives]:
    """All results that are alive at some instant, in pieces of bounded size."""
    starts = np.flatnonzero(np.append(True, rows.hashes[1:] != rows.hashes[:-1]))
    ends = np.append(starts[1:], len(rows))
    earliest, latest = rows.times[starts] - window_us, rows.times[ends - 1]
    # Instants as one ascending number: their group's, then the place of their time among all times.
    times, places = np.unique(rows.times, return_inverse=True)
    group_of = np.repeat(np.arange(len(starts)), ends - starts)
    instants = group_of * (len(times) + 1) + places
    for block in rows.blocks:
        ranges = window_bounds(block, of_hashes=rows.hashes[starts], first=earliest, last=latest)
        position = positions_in(ranges.starts, ranges.ends)
        group = np.repeat(np.arange(len(starts)), ranges.ends - ranges.starts) * (len(times) + 1)
        for piece in range(0, len(position), PIECE_ROWS):
            at, base = position[piece : piece + PIECE_ROWS], group[piece : piece + PIECE_ROWS]
            begins = np.searchsorted(times, int64s(block.batch, TIME)[at])
            ends_at = np.searchsorted(times, int64s(block.batch, DEADLINE)[at], side="right")
            first, last = np.searchsorted(instants, base + begins), np.searchsorted(instants, base + ends_at)
            some = first < last
            if some.any():
                yield _Lives(block, at[some], first[some], last[some])


def _covering(first: Int64s, last: Int64s, instants: int) -> tuple[Int64s, Int64s]:
    """Nodes of a binary tree over the instants that tile each life, as pairs of life and node.

    Leaf i is node `instants + i`, the parent of a node is its half. A life of any length takes two nodes
    per level at most, and an instant lies below one node of each level.
    """
    low, high = first + instants, last + instants
    alive = np.arange(len(first))
    lives, nodes = [], []
    while len(alive):
        odd = (low & 1).astype(bool)
        lives.append(alive[odd])
        nodes.append(low[odd])
        odd_end = (high & 1).astype(bool)
        low, high = low + odd, high - odd_end
        lives.append(alive[odd_end])
        nodes.append(high[odd_end])
        low, high = low >> 1, high >> 1
        more = low < high
        alive, low, high = alive[more], low[more], high[more]
    return np.concatenate(lives), np.concatenate(nodes)


def _by_node(block: RowSet, position: Int64s, nodes: Int64s) -> RowSet:
    """Rows of a block in runs of equal nodes, which stand where the hashes do."""
    order = np.argsort(nodes, kind="stable")
    taken = block.batch.take(pa.array(position[order]))
    return RowSet(taken.set_column(taken.schema.get_field_index(HASH), HASH, pa.array(nodes[order])))


def _paths(nodes: Int64s, instants: int) -> Iterator[Ranges]:
    """Level by level, per instant the run of rows of the node above it."""
    above = np.arange(instants) + instants
    whole = np.ones(instants, dtype=np.bool_)
    while above[-1]:
        starts = np.searchsorted(nodes, above)
        ends = np.searchsorted(nodes, above, side="right")
        if (starts < ends).any():
            yield Ranges(starts, ends, whole)
        above = above >> 1
