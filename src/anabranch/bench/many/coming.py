"""Queries that come while a session runs: when they have results, and what the others notice."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from pyspark.sql import SparkSession

from anabranch.bench.joins.anabranch_join import add_streams
from anabranch.engine.sinks.parquet_sink import ParquetSink
from anabranch.engine.sinks.shared_sink import shared
from anabranch.errors import AnabranchError
from anabranch.spark.run import Run
from anabranch.spark.session import Session
from anabranch.workloads.rules import plain_join, rule, rule_streams

T = TypeVar("T")
OTHER_KEY = "SELECT a.id AS x, b.id AS y FROM a [NOW] a, b [NOW] b WHERE a.id = b.id"
"""A join on a column by which no rows are sent yet."""


@dataclass(frozen=True, slots=True)
class Added:
    """Queries that come while a session runs."""

    batches: int
    """From the one under way at the request until the first with results of the one that joins a group."""
    change: float
    """Batch time after it ÷ before it: what the others noticed."""
    restart_s: float
    """Pause of all others where ingest must change."""


def run_coming(
    spark: SparkSession, scratch: Path, *, rules: int, rows: int, batches: int, window_us: int
) -> Added:
    """Add a query that joins a group, and one for which ingest must change, to a running session."""
    workload = rule_streams(scratch / "in", rules=rules, batches=4 * batches, rows_per_batch=rows)
    session = Session(spark, scratch / "checkpoint", sharing="open")
    add_streams(session, spark, workload)
    sink = shared(ParquetSink(scratch / "out"))
    session.query("base", plain_join(window_us=window_us), sink)
    run = session.start()
    try:
        _await_batch(run, batches // 2)
        asked = run.recentProgress[-1]["batchId"]  # the one after it is under way, at whose end queries come
        run.add("joins", rule(3, rules=rules, window_us=window_us), sink)
        heard = _await(run, lambda: _first_results(run, "joins"))
        _await_batch(run, heard + batches // 2)
        times = {p["batchId"]: p["durationMs"]["triggerExecution"] for p in run.recentProgress}
        before = statistics.median(ms for n, ms in times.items() if min(2, asked - 1) < n <= asked)
        after = statistics.median(ms for n, ms in times.items() if n > asked + 1)
        run.add("restarts", OTHER_KEY, sink)
        restarted = _await(run, lambda: next((e for e in run.events if e.kind == "ingest_restarted"), None))
    finally:
        run.stop()
    return Added(heard - asked - 1, after / before, float(restarted.data["seconds"]))


def _first_results(run: Run, query: str) -> int | None:
    told = ((p.batch, p.queries[query]) for p in run.recentProgress if query in p.queries)
    return next((batch for batch, progress in told if progress.output_rows), None)


def _await_batch(run: Run, batch: int) -> None:
    _await(run, lambda: next((1 for p in run.recentProgress[-1:] if p["batchId"] >= batch), None))


def _await(run: Run, found: Callable[[], T | None], *, timeout_s: float = 120) -> T:
    end = time.monotonic() + timeout_s
    while (value := found()) is None:
        if time.monotonic() > end or not run.isActive:
            last = [str(e) for e in run.events][-3:]
            raise AnabranchError(f"the session did not come to what was to be measured; it told: {last}")
        time.sleep(0.05)
    return value
