"""Runs a generated session and compares every query with DuckDB over the accepted rows.

Which rows are accepted is decided here a second time, row by row and by nothing but the definition
(docs/semantics.md), so that the engine does not judge itself.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime
from functools import partial
from typing import Any
from unittest import mock

import pyarrow as pa

from anabranch.adapt.boundary.decider import Decider
from anabranch.engine.local_driver import LocalRun
from anabranch.engine.sinks.memory_sink import MemorySink
from anabranch.engine.task.sites import site_groups
from anabranch.operators import work_memory
from anabranch.operators.join import join_evaluator, theta_join
from anabranch.operators.join.band import band_match
from anabranch.operators.join.match import match
from anabranch.plan.graph import JoinGraph
from anabranch.plan.logical import Query
from anabranch.plan.tree import Plan, default_plan
from anabranch.queries import reconcile
from anabranch.state import compaction
from anabranch.testing.oracle_compare import DifferentRows, assert_same_rows
from anabranch.testing.stream_model import accepted_rows, expected_rows, scratch
from tests.support.generated import Batch, Case
from tests.support.restless import any_plan


def check_case(case: Case, decider: Decider | None = None) -> None:
    """Run a case and raise `DifferentRows` where it differs from the oracle."""
    results, run = run_case(case, decider)
    check_results(case, results)
    models = accepted_rows(case.streams, _batches(case))
    for state in run.loop.manifest.streams if run.loop.manifest else ():
        model = models[state.name]
        found = (state.watermark, state.max_ts, state.rejected, state.accepted + state.late + state.rejected)
        rows = sum(batch[state.name].num_rows for batch in _batches(case))
        if not state.refused <= state.late <= model.late:
            raise DifferentRows(f"late rows of {state.name}: {state.late}, refused {state.refused}")
        if found != (expected := (model.watermark, model.max_ts, model.rejected, rows)):
            raise DifferentRows(f"account of {state.name}: {found}, expected {expected}")


def check_results(case: Case, results: Mapping[str, pa.Table]) -> None:
    """Compare the results of every query with the oracle over the accepted rows of its life."""
    models = accepted_rows(case.streams, _batches(case))
    for query, (first, last) in lives_of(case).items():
        tables = {n: m.rows_for(query, first, last) for n, m in models.items()}
        check_rows(results[query.name], expected_rows(query, case.streams, tables), what=query.text)


def run_case(case: Case, decider: Decider | None = None) -> tuple[dict[str, pa.Table], LocalRun]:
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
                decider=decider,
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
def small_pieces(case: Case) -> Iterator[None]:
    """Resume and flush after a few rows instead of a million; spill and compact early; use any plan."""
    spilled_bytes = work_memory.MOST_PIECE if case.flush_rows > 5 else 100
    with (
        mock.patch.object(work_memory, "MOST_PIECE", spilled_bytes),
        mock.patch.object(work_memory, "LEAST_FLUSH", spilled_bytes),
        mock.patch.object(work_memory, "MOST_FLUSH", min(spilled_bytes, work_memory.MOST_FLUSH)),
        mock.patch.object(join_evaluator, "match", partial(match, chunk=case.chunk_pairs)),
        mock.patch.object(theta_join, "band_match", partial(band_match, chunk=case.chunk_pairs)),
        mock.patch.object(join_evaluator, "FLUSH_ROWS", case.flush_rows),
        mock.patch.object(compaction, "FAN_IN", case.fan_in),
        mock.patch.object(site_groups, "TOGETHER_ROWS", case.together_rows),
        mock.patch.object(reconcile, "default_plan", partial(_plan_of, case.plan_seed)),
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
