"""The kernels that work on rows of one key, each with something to do.

What a kernel is given is made before it is timed. What it makes of a set of rows and keeps with it, such as
sums and trees, is made anew each time.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
import pyarrow as pa

from anabranch.bench.kernels.kernel_load import ALONE_US, SPACING_US, KernelLoad
from anabranch.exchange.address import PARTITIONS
from anabranch.exchange.partition_counts import partition_counts
from anabranch.operators.group.alive_results import Instants, fold_alive, none_before
from anabranch.operators.group.final_rows import Emission, final_rows
from anabranch.operators.group.folds.partial_aggregate import (
    Count,
    ExactSum,
    FloatSum,
    Least,
    LeastWide,
    Moments,
    Summary,
)
from anabranch.operators.group.folds.window_bounds import Ranges, window_bounds
from anabranch.operators.group.gathered_groups import gather_groups, gather_newest, shared_hashes
from anabranch.operators.group.group_hash import group_hashes
from anabranch.operators.group.newest_rows import Trim, keep_newest
from anabranch.operators.group.window_distinct import alone
from anabranch.operators.join.match import Side, match
from anabranch.operators.rows.expressions import join_rows
from anabranch.operators.rows.order import by_hash
from anabranch.operators.rows.pairs import equal_pairs, take
from anabranch.operators.rows.row_set import RowSet, int64s
from anabranch.operators.rows.sorting import ascending
from anabranch.plan.aggregate import WindowNode
from anabranch.plan.inputs import DEADLINE, HASH, TIME
from anabranch.plan.states.state_id import StateId

Work = Callable[[], object]
Case = Callable[[KernelLoad], Work]
"""What a kernel has to do with a load."""
BLOCKS = 8
"""Blocks that are merged into one."""
FEW = 16
"""Of so many rows one is new, where few probe many."""
NARROW_US, WIDE_US = 10 * SPACING_US, 1000 * SPACING_US
"""Windows of ten and of a thousand rows, where all are on one key."""
NEWEST = 5
"""Rows of a window by count."""
THETA_ROWS = 1 << 14
"""Rows of either side of a join without an equality, at most: it costs far more per row."""
_EVER = Emission(-(2**62), 2**62)
_ALL = np.ones(PARTITIONS, dtype=bool)


def _side(rows: pa.RecordBatch, *, stream: bool) -> Side:
    """A block as a stream's rows with a window, or as rows of a join, which have deadlines of their own."""
    times, hashes = int64s(rows, TIME), int64s(rows, HASH)
    if stream:
        return Side(hashes, None, times, times, ALONE_US, longest_us=0)
    return Side(hashes, None, times, int64s(rows, DEADLINE), 0, longest_us=ALONE_US)


def _probe(*, stream: bool, every: int = 1) -> Case:
    """Each new row finds one row."""

    def case(load: KernelLoad) -> Work:
        old = _side(load.block, stream=stream)
        new = old if every == 1 else _side(load.block.take(np.arange(0, load.rows, every)), stream=stream)
        return lambda: sum(len(found) for found, _ in match(new, old))

    return case


def _pairs(load: KernelLoad) -> Work:
    keys, at = int64s(load.block, HASH), np.arange(load.rows, dtype=np.int32)
    values = np.empty(load.rows, dtype=np.int64)

    def work() -> None:
        found, _ = equal_pairs((keys,), at, (keys,), at)
        take(keys, found, values)
        partition_counts(keys, found)

    return work


def _theta(load: KernelLoad) -> Work:
    few = load.batch.slice(0, THETA_ROWS)
    numbers = np.arange(few.num_rows, dtype=np.int32)
    times = {"t": few.column(TIME), "d": few.column(DEADLINE), "v": few.column("number")}
    left, right = pa.table({"l": numbers, **times}), pa.table({"r": numbers, **times})
    return lambda: sum(pairs.num_rows for pairs in join_rows(left, right, ["l.v <= r.v"]))


def _bounds(rows: RowSet, window_us: int) -> Ranges:
    times = int64s(rows.batch, TIME)
    return window_bounds(rows, of_hashes=int64s(rows.batch, HASH), first=times - window_us, last=times)


def _aggregate(summary: Summary, window_us: int) -> Case:
    """The window of every row, from nothing: bounds, sums or trees, folds."""

    def case(load: KernelLoad) -> Work:
        def work() -> None:
            rows = RowSet(load.block)
            summary.fold(rows, _bounds(rows, window_us), summary.empty(len(rows)))

        return work

    return case


def _alive(*summaries: Summary) -> Case:
    """Results of a join that are there at the time of each."""

    def case(load: KernelLoad) -> Work:
        def work() -> None:
            rows = Instants.of(load.final()).rows
            fold_alive(rows, ALONE_US, summaries, lambda _: None)

        return work

    return case


def _grouping(key: str, *, rows: int | None = None) -> WindowNode:
    return WindowNode(StateId("s"), ALONE_US, rows, False, (key,), False, (), None, {})


def _gather(key: str) -> Case:
    """Groups whose hash is no proof of their key, taken out of the blocks."""
    return lambda load: lambda: gather_groups(load.final(), _grouping(key))


def _gather_newest(load: KernelLoad) -> Work:
    node = _grouping("number", rows=NEWEST)
    return lambda: gather_newest(load.final(), node, emission=_EVER, before=NEWEST - 1)


def _keep_newest(load: KernelLoad) -> Work:
    """Groups of several rows, so that there is something to forget without a hot key, too."""
    hashes = int64s(load.block, HASH)[np.arange(load.rows) // NEWEST * NEWEST]
    block = load.block.set_column(0, HASH, pa.array(hashes)).set_column(3, "number", pa.array(hashes))
    trim = Trim(_grouping("number"), 1, before=2**62)
    return lambda: keep_newest(RowSet(block), trim)


def _final_rows(load: KernelLoad) -> Work:
    blocks = load.parts(BLOCKS)
    return lambda: final_rows([RowSet(block) for block in blocks], _EVER, _ALL)


def _merge(load: KernelLoad) -> Work:
    blocks = list(load.parts(BLOCKS))
    return lambda: RowSet.merged(blocks, TIME)


def _within(load: KernelLoad) -> Work:
    half = np.arange(PARTITIONS) % 2 == 0
    return lambda: RowSet(load.block).within(half)


CASES: Mapping[str, Case] = {
    "sort hashes": lambda load: lambda: ascending(load.hashes),
    "order by hash and time": lambda load: lambda: by_hash(load.hashes, load.times),
    "order by hash, time, arrival": (
        lambda load: lambda: by_hash(load.hashes, load.times, np.arange(load.rows))
    ),
    "merge blocks": _merge,
    "rows of some partitions": _within,
    "final rows of several blocks": _final_rows,
    "probe a stream": _probe(stream=True),
    "probe a stream, few new rows": _probe(stream=True, every=FEW),
    "probe rows of a join": _probe(stream=False),
    "probe rows of a join, few new rows": _probe(stream=False, every=FEW),
    "compare and take pairs": _pairs,
    "join without equality": _theta,
    "window bounds": lambda load: lambda: _bounds(RowSet(load.block), WIDE_US),
    "count and exact sum": _aggregate(ExactSum("x", 2), WIDE_US),
    "sum of floats, window of 10": _aggregate(FloatSum("f"), NARROW_US),
    "sum of floats, window of 1,000": _aggregate(FloatSum("f"), WIDE_US),
    "variance, window of 1,000": _aggregate(Moments("f"), WIDE_US),
    "minimum, window of 1,000": _aggregate(Least("x", largest=False), WIDE_US),
    "largest text, window of 1,000": _aggregate(LeastWide("t", largest=True), WIDE_US),
    "DISTINCT": lambda load: lambda: alone(load.final(), ALONE_US),
    "DISTINCT above a join": lambda load: lambda: none_before(load.final(), ALONE_US),
    "alive results, count and sum": _alive(Count(None), ExactSum("x", 2)),
    "alive results, minimum": _alive(Least("x", largest=False)),
    "hash text keys": lambda load: lambda: group_hashes([load.batch.column("text")], len(load.hashes)),
    "prove text keys": lambda load: lambda: shared_hashes(load.final(), _grouping("text")),
    "gather groups by number": _gather("number"),
    "gather groups by text": _gather("text"),
    "gather the newest": _gather_newest,
    "keep the newest": _keep_newest,
}
