"""Runs a generated session and compares every query with DuckDB over the accepted rows.

Which rows are accepted is decided here a second time, row by row and by nothing but the definition
(design, section 4), so that the engine does not judge itself.
"""

from __future__ import annotations

import random
import shutil
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from functools import cache, partial
from pathlib import Path
from typing import Any
from unittest import mock

import duckdb
import pyarrow as pa

from anabranch.language.oracle_sql import oracle_sql
from anabranch.operators import window_join
from anabranch.operators.match import match
from anabranch.plan.graph import JoinGraph
from anabranch.plan.logical import Query, Stream
from anabranch.plan.tree import Plan, default_plan
from anabranch.runtime import catalog
from anabranch.runtime.sinks import MemorySink
from anabranch.runtime.times import MAX_TIME_US
from anabranch.state import compaction
from anabranch.testing.generated import Batch, Case
from anabranch.testing.local_run import LocalRun
from anabranch.testing.oracle_compare import assert_same_rows
from anabranch.testing.restless import any_plan

FAST = Path("/dev/shm")  # noqa: S108 - scratch space of tests; there, a sync to disk costs nothing


@dataclass(slots=True)
class StreamModel:
    """The late rule, read off its definition: one stream, one row after the other."""

    stream: Stream
    max_ts: int | None = None
    watermark: int | None = None
    accepted: list[pa.Table] = field(default_factory=list)
    """Per batch."""
    rejected: int = 0

    def take(self, rows: pa.Table) -> None:
        """Take the rows of one batch."""
        keep = []
        newest = self.max_ts
        for time in rows.column(self.stream.time).cast(pa.int64()).to_pylist():
            usable = time is not None and 0 <= time < MAX_TIME_US
            self.rejected += not usable
            in_time = usable and (self.watermark is None or time >= self.watermark)
            keep.append(in_time)
            if in_time:
                newest = time if newest is None else max(newest, time)
        self.accepted.append(rows.filter(pa.array(keep, pa.bool_())))
        self.max_ts = newest
        if newest is not None:
            mark = newest - self.stream.lateness_us
            self.watermark = mark if self.watermark is None else max(self.watermark, mark)


def accepted_rows(streams: Sequence[Stream], batches: Sequence[Batch]) -> dict[str, StreamModel]:
    """What the late rule leaves of every stream."""
    models = {s.name: StreamModel(s) for s in streams}
    for batch in batches:
        for name, model in models.items():
            model.take(batch[name])
    return models


def expected_rows(query: Query, streams: Sequence[Stream], tables: Mapping[str, pa.Table]) -> pa.Table:
    """The query as one batch SELECT over the given rows."""
    connection = _connection()
    for name, table in tables.items():
        connection.register(name, table)
    return connection.sql(oracle_sql(query, {s.name: s for s in streams})).to_arrow_table()


def check_case(case: Case) -> None:
    """Run a case and raise AssertionError where it differs from the oracle."""
    results, run = run_case(case)
    check_results(case, results)
    models = accepted_rows(case.streams, _batches(case))
    for state in run.loop.manifest.streams if run.loop.manifest else ():
        model = models[state.name]
        found = (state.watermark, state.max_ts, state.rejected, state.accepted + state.late + state.rejected)
        rows = sum(batch[state.name].num_rows for batch in _batches(case))
        assert found == (model.watermark, model.max_ts, model.rejected, rows), f"account of {state.name}"


def check_results(case: Case, results: Mapping[str, pa.Table]) -> None:
    """Compare the results of every query with the oracle over the accepted rows of its life."""
    models = accepted_rows(case.streams, _batches(case))
    for query, (first, last) in lives_of(case).items():
        tables = {n: pa.concat_tables(m.accepted[first:last]) for n, m in models.items()}
        check_rows(results[query.name], expected_rows(query, case.streams, tables), what=query.text)


def run_case(case: Case) -> tuple[dict[str, pa.Table], LocalRun]:
    """Results by query, and the last run of the session."""
    sinks = {q.name: MemorySink() for phase in case.phases for q in phase.queries}
    with scratch() as root, small_pieces(case):
        for phase in case.phases:
            run = LocalRun(
                root,
                case.streams,
                phase.queries,
                sinks=sinks,
                settings=phase.settings,
                wide_hash_bits=case.wide_hash_bits,
            )
            for batch in phase.batches:
                run.batch(batch)
            run.drain()
            run.close()
        return {name: sink.table() for name, sink in sinks.items()}, run


def lives_of(case: Case) -> dict[Query, tuple[int, int]]:
    """Per query its first batch, and the first batch without it."""
    lives: dict[Query, tuple[int, int]] = {}
    start = 0
    for phase in case.phases:
        end = start + len(phase.batches)
        for query in phase.queries:
            lives[query] = (lives.get(query, (start, start))[0], end)
        start = end
    return lives


def check_rows(actual: pa.Table, expected: pa.Table, *, what: str) -> None:
    """Like `assert_same_rows`, quicker where the rows are equal and few."""
    if actual.num_rows == expected.num_rows < 5_000 and _bag(actual) == _bag(expected):
        return
    assert_same_rows(actual, expected, what=what)


@contextmanager
def scratch() -> Iterator[Path]:
    """A directory, in memory where there is such a place."""
    root = Path(tempfile.mkdtemp(prefix="anabranch-", dir=FAST if FAST.is_dir() else None))
    try:
        yield root
    finally:
        shutil.rmtree(root, ignore_errors=True)


@contextmanager
def small_pieces(case: Case) -> Iterator[None]:
    """Resume and flush after a few rows instead of a million; compact early; use any plan."""
    with (
        mock.patch.object(window_join, "match", partial(match, chunk=case.chunk_pairs)),
        mock.patch.object(window_join, "FLUSH_ROWS", case.flush_rows),
        mock.patch.object(compaction, "FAN_IN", case.fan_in),
        mock.patch.object(catalog, "default_plan", partial(_plan_of, case.plan_seed)),
    ):
        yield


def _batches(case: Case) -> list[Batch]:
    return [batch for phase in case.phases for batch in phase.batches]


def _plan_of(seed: int | None, graph: JoinGraph) -> Plan:
    """Any join tree; the same one after every restart."""
    if seed is None:
        return default_plan(graph)
    return any_plan(random.Random(f"{seed} {graph.aliases}"), graph.aliases)


def _bag(table: pa.Table) -> Counter[tuple[Any, ...]]:
    columns = [[_by_meaning(v) for v in table.column(n).to_pylist()] for n in sorted(table.column_names)]
    return Counter(zip(*columns, strict=True))


def _by_meaning(value: Any) -> Any:
    if isinstance(value, float):
        return "NaN" if value != value else value + 0.0
    return value.replace(tzinfo=None) if isinstance(value, datetime) else value


@cache
def _connection() -> duckdb.DuckDBPyConnection:
    return duckdb.connect(":memory:", config={"threads": 1})
