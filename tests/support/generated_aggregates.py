"""Hypothesis strategies for sessions with windowed aggregates and DISTINCT.

A case is lived through by `check_aggregates`: batches with disorder and late rows, restarts, other sites and
slots, partitions that move, rows that wait, compaction, an end of input now and then, and one at the end.
Sums and averages are taken of columns whose values add up without rounding, so that results are compared
as they are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise
from typing import Any
from unittest import mock

import pyarrow as pa
from hypothesis import strategies as st

from anabranch.adapt.boundary.decider import Decider
from anabranch.engine.local_driver import LocalRun
from anabranch.engine.settings import Settings
from anabranch.engine.sinks.memory_sink import MemorySink
from anabranch.engine.task.sites import site_groups
from anabranch.exchange.address import PARTITION_BITS
from anabranch.language.flow import bind_query
from anabranch.operators.group import alive_results, joined_results, window_aggregate
from anabranch.operators.group.group_hash import group_hashes
from anabranch.operators.group.windows import aligned_windows, session_windows
from anabranch.operators.rows.arrays import Int64s
from anabranch.plan.logical import Query, Stream
from anabranch.state import compaction
from anabranch.testing.stream_model import StreamModel, expected_rows, scratch
from tests.support.generated import (
    BASES_US,
    POOLS,
    TOGETHER,
    Batch,
    _plain,
    arrivals,
    batch_splits,
    settings_of_phase,
    streams,
)
from tests.support.oracle_check import check_rows
from tests.support.restless import RestlessDecider

_SUMMED = "ilnwf"
_WINDOWS = (
    "[RANGE 4 MICROSECONDS]",
    "[NOW]",
    "[RANGE 1 MICROSECOND]",
    "[RANGE 12 MICROSECONDS]",
    "[RANGE UNBOUNDED]",
)
_COUNTS = ("[ROWS 1]", "[ROWS 2]", "[ROWS 3]", "[ROWS 7]")


@dataclass(frozen=True, slots=True)
class AggregateCase:
    """The life of one session; `phases` are (queries, settings, batches, whether input ends there)."""

    streams: tuple[Stream, ...]
    phases: tuple[tuple[tuple[Query, ...], Settings, tuple[Batch, ...], bool], ...]
    wide_hash_bits: int
    fan_in: int
    chunk_rows: int
    seed: int | None
    """Of the moves and waits at every boundary; None for none."""
    together_rows: int = -1
    """New rows of sites that are worked on together."""
    closes: bool = False
    """Whether every run takes its closing step, as one that reads what is available does."""

    def __repr__(self) -> str:
        lines = [
            f"AggregateCase(bits={self.wide_hash_bits}, fan_in={self.fan_in}, seed={self.seed}, "
            f"together={self.together_rows}, closes={self.closes}"
        ]
        lines += [f"  {s}" for s in self.streams]
        for queries, settings, batches, ends in self.phases:
            lines += [f"  {settings} {ends=}", *(f"    {q.name}: {q.text}" for q in queries)]
            lines += [f"    batch: { {n: _plain(t) for n, t in b.items()} }" for b in batches]
        return "\n".join(lines) + ")"

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        printer.text(repr(self))


@st.composite
def aggregate_texts(draw: st.DrawFn, stream: Stream) -> str:
    """A grouped SELECT over one stream."""
    kinds = [c.name for c in stream.columns if c.name in POOLS]
    # Few keys of few values: groups of one row would prove nothing.
    keys = draw(st.lists(st.sampled_from([*kinds, "id > 9"]), max_size=2, unique=True))
    window = draw(st.sampled_from(_WINDOWS + _COUNTS))
    chosen = draw(st.lists(st.sampled_from(aggregates_of(kinds)), min_size=1, max_size=5))
    outputs = [f"{k} AS k{i}" for i, k in enumerate(keys) if draw(st.booleans()) or i == 0]
    outputs += [f"{a} AS a{i}" for i, a in enumerate(["MAX(id)", *chosen])]
    where = draw(st.sampled_from(["", "", " WHERE id > 2", f" WHERE {kinds[0]} IS NOT NULL"]))
    group = f" GROUP BY {', '.join(keys)}" if keys else ""
    having = draw(st.sampled_from(["", "", " HAVING COUNT(*) > 1", " HAVING SUM(id) % 2 = 0"]))
    return f"SELECT {', '.join(outputs)} FROM {stream.name} {window}{where}{group}{having}"


@st.composite
def distinct_texts(draw: st.DrawFn, stream: Stream) -> str:
    """A SELECT DISTINCT over one stream."""
    kinds = [c.name for c in stream.columns if c.name in POOLS]
    chosen = draw(st.lists(st.sampled_from([*kinds, "id > 9"]), min_size=1, max_size=2, unique=True))
    outputs = ", ".join(f"{k} AS k{i}" for i, k in enumerate(chosen))
    where = draw(st.sampled_from(["", " WHERE id > 2"]))
    return f"SELECT DISTINCT {outputs} FROM {stream.name} {draw(st.sampled_from(_WINDOWS))}{where}"


def aggregates_of(kinds: Sequence[str]) -> list[str]:
    """Aggregates of columns of these kinds."""
    summed = [k for k in kinds if k in _SUMMED] + ["id"]
    found = ["COUNT(*)", "COUNT(*) * 2 + 1", "MIN(id) + COUNT(*)", "MAX(ts)", "MIN(ts)", "7"]
    found += [f"{f}({k})" for k in summed for f in ("SUM", "AVG")]
    found += [f"{f}({k})" for k in kinds for f in ("COUNT", "MIN", "MAX")]
    found += [f"coalesce(SUM({k}), 0)" for k in summed if k not in "nw"]
    found += [f"{f} FILTER (WHERE id > 9)" for f in ("COUNT(*)", "SUM(id)", f"MAX({kinds[0]})")]
    found += [f"COUNT(*) FILTER (WHERE {kinds[-1]} IS NOT NULL)"]
    return [*found, "CASE WHEN COUNT(*) > 2 THEN 'many' ELSE 'few' END"]


@st.composite
def aggregate_cases(draw: st.DrawFn) -> AggregateCase:
    """A whole session, with a join and a query without state now and then."""
    declared = draw(streams())
    text = st.sampled_from(declared).flatmap(lambda s: aggregate_texts(s) | distinct_texts(s))
    texts = draw(st.lists(text, min_size=1, max_size=3))
    if draw(st.booleans()):
        a, b = draw(st.sampled_from(declared)).name, draw(st.sampled_from(declared)).name
        texts.append(
            f"SELECT a.id AS a, b.id AS b FROM {a} [NOW] a, {b} [RANGE 4 MICROSECONDS] b WHERE a.id = b.id"
        )
    if draw(st.booleans()):
        texts.append(f"SELECT id, ts FROM {draw(st.sampled_from(declared)).name} WHERE id > 2")
    return draw(sessions_of(declared, texts, sizes=(24, 16, 10, 1)))


@st.composite
def sessions_of(
    draw: st.DrawFn, declared: tuple[Stream, ...], texts: Sequence[str], sizes: Sequence[int]
) -> AggregateCase:
    """Sessions with these queries; `sizes` are numbers of rows per stream."""
    by_name = {s.name: s for s in declared}
    queries = [bind_query(f"q{i}", t, by_name) for i, t in enumerate(texts)]
    size = draw(st.sampled_from(sizes))
    base, broken = draw(st.sampled_from(BASES_US)), draw(st.booleans())
    rows = {s.name: draw(arrivals(s, size, base_us=base, broken=broken)) for s in declared}
    batches = draw(batch_splits(rows, draw(st.sampled_from((6, 10, 4, 2, 1)))))
    return AggregateCase(
        declared,
        draw(phases_of(queries, batches)),
        wide_hash_bits=draw(st.sampled_from((64, 9, 1))),
        fan_in=draw(st.sampled_from((4, 2))),
        chunk_rows=draw(st.sampled_from((1 << 19, 2))),
        seed=draw(st.none() | st.integers(0, 99)),
        together_rows=draw(st.sampled_from(TOGETHER)),
        closes=draw(st.booleans()),
    )


@st.composite
def phases_of(draw: st.DrawFn, queries: list[Query], batches: tuple[Batch, ...]) -> Any:
    """Queries and batches spread over one to three runs of a session."""
    inner = st.lists(st.integers(1, max(1, len(batches) - 1)), max_size=2, unique=True)
    bounds = [0, *(draw(inner) if len(batches) > 1 else []), len(batches)]
    bounds.sort()
    starts = [0 if i == 0 else draw(st.integers(0, len(bounds) - 2)) for i in range(len(queries))]
    return tuple(
        (
            tuple(q for q, start in zip(queries, starts, strict=True) if start <= i),
            replace(draw(settings_of_phase()), max_blocks=draw(st.sampled_from((1, 1, 2, 12)))),
            batches[first:last],
            i == len(bounds) - 2 or draw(st.integers(0, 3)) == 0,
        )
        for i, (first, last) in enumerate(pairwise(bounds))
    )


def check_aggregates(
    case: AggregateCase,
    before_step: Callable[[LocalRun], None] | None = None,
    *,
    decider: Decider | None = None,
) -> None:
    """Run a case and raise AssertionError where it differs from the oracle.

    Parameters
    ----------
    before_step
        Called before every batch and every end of input.
    decider
        Another one than the case has.
    """
    prepare = before_step or (lambda run: None)
    if decider is None and case.seed is not None:
        decider = RestlessDecider(case.seed)
    models = {s.name: StreamModel(s) for s in case.streams}
    sinks = {q.name: MemorySink() for queries, *_ in case.phases for q in queries}
    first: dict[Query, int] = {}
    done, left_waiting = 0, set[str]()
    with scratch() as root, _unsettled(case):
        for queries, settings, batches, ends in case.phases:
            first |= {q: done for q in queries if q not in first}
            run = LocalRun(
                root,
                case.streams,
                queries,
                sinks=sinks,
                settings=settings,
                wide_hash_bits=case.wide_hash_bits,
                decider=decider,
            )
            for batch in batches:
                prepare(run)
                run.batch(batch)
                done += 1
                for name, model in models.items():
                    model.take(batch[name])
            prepare(run)
            if case.closes:
                run.drain()
            if ends and run.end_of_input():
                _end_input(models, queries)
            if ends and run.loop.manifest is not None:
                left_waiting |= {q.name for q in run.loop.manifest.queries if q.waiting}
            run.close()
    for query, start in first.items():
        tables = {n: m.rows_for(query, start) for n, m in models.items() if m.accepted[start:]}
        expected = expected_rows(query, case.streams, tables)
        check_rows(sinks[query.name].table(), expected, what=query.text)
    assert not left_waiting, "rows wait after the end"


def _end_input(models: Mapping[str, StreamModel], queries: Sequence[Query]) -> None:
    """Every stream ends with its newest row; those whose join is grouped, with the newest of them all.

    Those of windows end with the last window that this row is in.
    """
    ends = {name: model.max_ts for name, model in models.items()}
    for query in queries:
        names = {ref.stream for ref in query.refs} if query.grouping is not None else set()
        newest = max((t for n in names if (t := models[n].max_ts) is not None), default=None)
        if newest is not None:
            last = _last_of_window(query, newest)
            ends |= {name: max(last, ends[name] or 0) for name in names}
    for name, end in ends.items():
        if end is not None:
            models[name].watermark = max(end + 1, models[name].watermark or 0)


def _last_of_window(query: Query, newest: int) -> int:
    """The last time of the last window with a row at `newest`: no session can reach further, either."""
    assert query.grouping is not None
    window = query.grouping.window
    if window is None:
        return newest
    if window.session:
        return newest + window.size_us
    starts = range(newest - window.slide_us + 1, newest + 1)
    return next(s for s in starts if (s - window.offset_us) % window.slide_us == 0) + window.size_us - 1


@contextmanager
def _unsettled(case: AggregateCase) -> Iterator[None]:
    """Merge blocks early, and answer a few rows at a time."""
    with (
        mock.patch.object(compaction, "FAN_IN", case.fan_in),
        mock.patch.object(site_groups, "TOGETHER_ROWS", case.together_rows),
        mock.patch.object(window_aggregate, "CHUNK_ROWS", case.chunk_rows),
        mock.patch.object(alive_results, "PIECE_ROWS", case.chunk_rows),
        mock.patch.object(aligned_windows, "CHUNK_ROWS", case.chunk_rows),
        mock.patch.object(session_windows, "CHUNK_ROWS", case.chunk_rows),
        mock.patch.object(joined_results, "group_hashes", partial(_coarse_hashes, case.wide_hash_bits)),
    ):
        yield


def _coarse_hashes(bits: int, keys: Sequence[pa.Array], rows: int, **place: Any) -> Int64s:
    """Hashes of groups in few bits beside those of the partition, so that groups share them."""
    shift = max(0, 64 - PARTITION_BITS - bits)
    return group_hashes(keys, rows, **place) >> shift << shift
