"""flux-memory, flux-memory-groups: states four times as large as the memory that their sites may use."""

from __future__ import annotations

import os
import tempfile
from dataclasses import dataclass
from pathlib import Path

from anabranch.bench.joins.anabranch_join import add_streams, join_text
from anabranch.bench.same_results import difference
from anabranch.bench.worker_memory import python_workers
from anabranch.engine.sinks.parquet_sink import ParquetSink
from anabranch.reproduce.report.picture import Chart, draw
from anabranch.reproduce.report.result import Check, Result, Table, at_least, at_most
from anabranch.spark.session import Session
from anabranch.spark.start.spark_session import spark_session
from anabranch.workloads.stream_files import Workload
from anabranch.workloads.uniform import uniform_streams

SITES = 4
SMALL_ROWS = 2_000
BATCHES = 20
INTERVALS = 100
"""Of the window: nothing expires."""
AGGREGATES = "COUNT(*) AS n, SUM(id) AS s, MAX(id) AS hi, AVG(v) AS m, STDDEV(v) AS d"


@dataclass(frozen=True, slots=True)
class Watched:
    """One run: rows of state, per step what sites work on, the busiest one, and the largest worker (MiB)."""

    rows: int
    all_sites_mb: list[float]
    site_mb: list[float]
    private_mb: float
    resident_mb: float
    seconds: float
    out: Path


@dataclass(frozen=True, slots=True)
class Runs:
    """The same query over hardly any rows, and over many with and without a budget."""

    small: Watched
    bounded: Watched
    twice: Watched
    free: Watched
    budget_mb: int
    differing: int

    def shared_checks(self) -> tuple[Check, ...]:
        worked_on = max(*self.bounded.site_mb, *self.twice.site_mb)
        growth = self.twice.private_mb / self.bounded.private_mb
        return (
            at_least("needed at a site ÷ budget", max(self.free.site_mb) / self.budget_mb, 3.0),
            at_most("worked on at a site ÷ budget", worked_on / self.budget_mb, 1.1),
            at_most("private memory with twice the state ÷ before", growth, 1.25),
            at_most("rows that differ", float(self.differing), 0.0),
        )


def flux_memory(out: Path, *, quick: bool = False) -> Result:
    """A join. Its state is mapped from files, so that most of it is no private memory, budget or not."""
    runs = _runs(("a", "b"), ("k", "a_id", "b_id"), 20_000 if quick else 100_000, quick=quick)
    return _result("flux-memory", "a join", runs, (), out)


def flux_memory_groups(out: Path, *, quick: bool = False) -> Result:
    """Aggregates, which have summaries of their state in private memory."""
    # Sums of floating-point numbers depend on the order of additions: AVG and STDDEV are not compared.
    runs = _runs(("a",), ("k", "n", "s", "hi"), 20_000 if quick else 200_000, quick=quick)
    base = runs.small.private_mb
    taken = (runs.bounded.private_mb - base) / max(runs.free.private_mb - base, 1.0)
    check = at_most("private memory that the state takes ÷ without a budget", taken, 0.6)
    return _result("flux-memory-groups", "aggregates", runs, (check,), out)


def _runs(names: tuple[str, ...], columns: tuple[str, ...], rows: int, *, quick: bool) -> Runs:
    batches = BATCHES // 2 if quick else BATCHES
    with tempfile.TemporaryDirectory() as scratch:
        root = Path(scratch)
        few = uniform_streams(root / "few", batches=3, rows_per_batch=SMALL_ROWS, names=names)
        work = uniform_streams(root / "data", batches=batches, rows_per_batch=rows, names=names)
        more = uniform_streams(root / "more", batches=2 * batches, rows_per_batch=rows, names=names)
        _run(few, root / "warm", budget_mb=0)  # a worker's first task compiles
        # Workers live on and keep what they have taken: the largest run is the last.
        small = _run(few, root / "small", budget_mb=0)
        needed_mb = small.all_sites_mb[-1] / small.rows * batches * rows * len(names)
        budget_mb = max(1, round(needed_mb / SITES / 4))
        bounded = _run(work, root / "bounded", budget_mb=budget_mb)
        twice = _run(more, root / "twice", budget_mb=budget_mb)
        free = _run(work, root / "free", budget_mb=0)
        same = difference(bounded.out, free.out, columns)
    return Runs(small, bounded, twice, free, budget_mb, 0 if same is None else 1)


def _run(work: Workload, scratch: Path, *, budget_mb: int) -> Watched:
    spark = spark_session("local[2]")
    session = Session(
        spark, scratch / "checkpoint", sites=SITES, memory_budget_mb=budget_mb, end_of_input="true"
    )
    add_streams(session, spark, work)
    session.query("q", _text(work), ParquetSink(scratch / "out"))
    run = session.start(availableNow=True)
    private = resident = 0.0
    while not run.awaitTermination(0.1):
        workers = python_workers(os.getpid())
        private = max([private, *(w.anonymous / 2**20 for w in workers)])
        resident = max([resident, *(w.rss / 2**20 for w in workers)])
    progress = run.recentProgress
    sites = [[s["stateBytes"] / 2**20 for s in p["sites"]] for p in progress]
    return Watched(
        max(p["state"]["numRowsTotal"] for p in progress),
        [sum(s) for s in sites],
        [max(s, default=0.0) for s in sites],
        private,
        resident,
        sum(p["durationMs"]["triggerExecution"] for p in progress) / 1000,
        scratch / "out",
    )


def _text(work: Workload) -> str:
    window_us = INTERVALS * work.interval_us
    if len(work.streams) > 1:
        return join_text(work, window_us=window_us)
    return f"SELECT k, {AGGREGATES} FROM {work.streams[0].name} [RANGE {window_us} MICROSECONDS] GROUP BY k"


def _result(name: str, what: str, runs: Runs, further: tuple[Check, ...], out: Path) -> Result:
    chart = Chart(
        "step",
        "MiB",
        list(range(len(runs.bounded.site_mb))),
        {"worked on at the busiest site": runs.bounded.site_mb},
        {"budget": float(runs.budget_mb), "needed at a site": max(runs.free.site_mb)},
    )
    shown = {
        "hardly any state": runs.small,
        "budget": runs.bounded,
        "budget, twice the state": runs.twice,
        "no budget": runs.free,
    }
    head = (
        "run",
        "rows of state",
        "worked on at a site (MiB)",
        "worker, private (MiB)",
        "worker, resident (MiB)",
        "steps",
        "seconds",
    )
    rows = tuple(
        (title, run.rows, max(run.site_mb), run.private_mb, run.resident_mb, len(run.site_mb), run.seconds)
        for title, run in shown.items()
    )
    return Result(
        name,
        f"{what} with a budget of {runs.budget_mb} MiB at each of {SITES} sites",
        Table(head, rows),
        (*runs.shared_checks(), *further),
        draw(chart, out / f"{name}.png"),
    )
