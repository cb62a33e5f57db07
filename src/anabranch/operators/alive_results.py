"""Aggregates over the results of a join that are there at some time: begun, and not past their deadline.

    ├── time ─────── deadline ──┤            counts at T
         ├───────┤                           is over at T
                        ├───────────────┤    has not begun
    ────────────────────▲───────────────────► event time
                        T

Results differ in how long they live, so that those alive at T are no range of positions. What can be
subtracted (counts, exact sums) is all that have begun less all that are over: two ranges, one in the order
of times, one in that of deadlines. The rest is folded from the alive results themselves, window by window.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from anabranch.operators.column_codes import Flags
from anabranch.operators.final_rows import FinalRows, time_range
from anabranch.operators.gathered_groups import positions_in
from anabranch.operators.order import Int64s
from anabranch.operators.partial_aggregate import Accumulator, Count, ExactSum, Least, Summary
from anabranch.operators.rows import RowSet, concat_rows, int64s
from anabranch.operators.window_bounds import Ranges, window_bounds
from anabranch.plan.layout import DEADLINE, HASH, TIME
from anabranch.plan.logical import UNBOUNDED_US

PAIRS = 1 << 21
"""Pairs of an instant and a result that are taken out of their blocks at a time: bounds memory."""
_LATEST = Least(DEADLINE, largest=True)


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


def in_parts(
    rows: FinalRows, window_us: int, summaries: Iterable[Summary], charge: Callable[[int], None]
) -> Iterator[FinalRows]:
    """Final results in pieces that `fold_alive` can answer in bounded memory.

    Parameters
    ----------
    window_us
        No result lives longer than that.
    charge
        Told how many pairs will be taken out of their blocks, before they are.
    """
    if all(isinstance(s, Count | ExactSum) for s in summaries):
        yield rows
        return
    instants = Instants.of(rows)
    pairs = np.zeros(len(instants.rows), dtype=np.int64)
    for _, ranges in _begun(instants.rows, window_us):
        pairs += ranges.ends - ranges.starts
    charge(int(pairs.sum()))
    part = (np.cumsum(pairs) // PAIRS)[instants.of_result]
    bounds = np.flatnonzero(np.diff(part)) + 1
    for start, end in zip([0, *bounds], [*bounds, len(rows)], strict=True):
        yield rows.at(slice(int(start), int(end)))


def fold_alive(rows: FinalRows, window_us: int, summaries: Iterable[Summary]) -> dict[Summary, Accumulator]:
    """Aggregate what is alive in the group of each row at its time."""
    known = {s: s.empty(len(rows)) for s in summaries}
    subtracted = [s for s in known if isinstance(s, Count | ExactSum)]
    for summary in subtracted:
        _fold_difference(rows, summary, known[summary])
    if len(subtracted) < len(known):
        alive, ranges = _gather(rows, window_us)
        for other in known.keys() - set(subtracted):
            other.fold(alive, ranges, known[other])
    return known


def none_before(rows: FinalRows, window_us: int) -> Flags:
    """Whether nothing of a row's group that began before it is still there at its time."""
    latest = _LATEST.empty(len(rows))
    for block in rows.blocks:
        before = window_bounds(
            block, of_hashes=rows.hashes, first=rows.times - window_us, last=rows.times - 1
        )
        _LATEST.fold(block, before, latest)
    found: Flags = ~latest < rows.times  # the codes of a maximum are complements
    return found


def _fold_difference(rows: FinalRows, summary: Count | ExactSum, into: Int64s) -> None:
    """Add all that have begun, and take off all that are over: a result that is over has begun."""
    ever = np.full(len(rows), -UNBOUNDED_US)
    over = summary.empty(len(rows))
    for block in rows.blocks:
        begun = window_bounds(block, of_hashes=rows.hashes, first=ever, last=rows.times)
        summary.fold(block, begun, into)
        by_deadline = _by_deadline(block)
        ended = window_bounds(by_deadline, of_hashes=rows.hashes, first=ever, last=rows.times - 1)
        summary.fold(by_deadline, ended, over)
    into -= over


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


def _begun(rows: FinalRows, window_us: int) -> Iterator[tuple[RowSet, Ranges]]:
    """Blocks, and per row the range of results that have begun and may be alive."""
    first = rows.times - window_us
    earliest, latest = int(first.min()), int(rows.times.max())
    for block in rows.blocks:
        least, largest = time_range(block)
        if largest >= earliest and least <= latest:
            yield block, window_bounds(block, of_hashes=rows.hashes, first=first, last=rows.times)


def _gather(rows: FinalRows, window_us: int) -> tuple[RowSet, Ranges]:
    """All that is alive at each row, one run of rows for each of them."""
    pieces = []
    for block, ranges in _begun(rows, window_us):
        at = positions_in(ranges.starts, ranges.ends)
        of_row = np.repeat(np.arange(len(rows)), ranges.ends - ranges.starts)
        alive = int64s(block.batch, DEADLINE)[at] >= rows.times[of_row]
        taken = block.batch.take(pa.array(at[alive]))
        pieces.append(taken.set_column(taken.schema.get_field_index(HASH), HASH, pa.array(of_row[alive])))
    gathered = RowSet.sorted(concat_rows(pieces), TIME)
    bounds = np.searchsorted(int64s(gathered.batch, HASH), np.arange(len(rows) + 1))
    # A row is alive at its own time, so that no run is empty.
    return gathered, Ranges(bounds[:-1], bounds[1:], np.ones(len(rows), dtype=np.bool_))
