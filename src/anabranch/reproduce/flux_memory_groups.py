"""flux-memory-groups: aggregates whose state and summaries are four times what their sites may hold."""

from __future__ import annotations

import os
import tempfile
from dataclasses import dataclass
from pathlib import Path

from anabranch.bench.anabranch_join import add_streams
from anabranch.bench.same_results import difference
from anabranch.bench.worker_memory import python_workers
from anabranch.runtime.run import Run
from anabranch.runtime.session import Session
from anabranch.runtime.sinks import ParquetSink
from anabranch.runtime.spark_session import spark_session
from anabranch.sim.experiments.picture import Chart, draw
from anabranch.sim.experiments.result import Result, Table, at_least, at_most
from anabranch.testing.stream_files import Workload
from anabranch.testing.workloads import uniform_streams

SITES = 4
SMALL_ROWS = 2_000
AGGREGATES = "COUNT(*) AS n, SUM(id) AS s, MAX(id) AS hi, AVG(v) AS m, STDDEV(v) AS d"
EXACT = ("k", "n", "s", "hi")
"""Columns that do not depend on the order of additions."""


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


def flux_memory_groups(out: Path, *, quick: bool = False) -> Result:
    """The same rows with and without a budget, after a run with hardly any for comparison."""
    batches, rows = (8, 20_000) if quick else (20, 200_000)
    with tempfile.TemporaryDirectory() as scratch:
        root = Path(scratch)
        few = uniform_streams(root / "few", batches=3, rows_per_batch=SMALL_ROWS, names=("a",))
        work = uniform_streams(root / "data", batches=batches, rows_per_batch=rows, names=("a",))
        _run(few, root / "warm", budget_mb=0)  # a worker's first task compiles
        more = uniform_streams(root / "more", batches=2 * batches, rows_per_batch=rows, names=("a",))
        # Workers live on and keep what they have taken: the largest run is the last.
        small = _run(few, root / "small", budget_mb=0)
        needed_mb = small.all_sites_mb[-1] / small.rows * batches * rows
        budget_mb = max(1, round(needed_mb / SITES / 4))
        bounded = _run(work, root / "bounded", budget_mb=budget_mb)
        twice = _run(more, root / "twice", budget_mb=budget_mb)
        free = _run(work, root / "free", budget_mb=0)
        same = difference(bounded.out, free.out, EXACT)
    chart = Chart(
        "step",
        "MiB",
        list(range(len(bounded.site_mb))),
        {"worked on at the busiest site": bounded.site_mb},
        {"budget": float(budget_mb), "needed at a site": max(free.site_mb)},
    )
    return Result(
        "flux-memory-groups",
        f"aggregates with a budget of {budget_mb} MiB at each of {SITES} sites",
        Table(
            (
                "run",
                "rows of state",
                "worked on at a site (MiB)",
                "worker, private (MiB)",
                "worker, resident (MiB)",
                "steps",
                "seconds",
            ),
            tuple(
                (
                    name,
                    run.rows,
                    max(run.site_mb),
                    run.private_mb,
                    run.resident_mb,
                    len(run.site_mb),
                    run.seconds,
                )
                for name, run in (
                    ("hardly any state", small),
                    ("budget", bounded),
                    ("budget, twice the state", twice),
                    ("no budget", free),
                )
            ),
        ),
        (
            at_least("needed at a site ÷ budget", max(free.site_mb) / budget_mb, 3.0),
            at_most("worked on at a site ÷ budget", max(*bounded.site_mb, *twice.site_mb) / budget_mb, 1.1),
            at_most(
                "private memory that the state takes ÷ without a budget",
                (bounded.private_mb - small.private_mb) / max(free.private_mb - small.private_mb, 1.0),
                0.6,
            ),
            at_most(
                "private memory with twice the state ÷ before", twice.private_mb / bounded.private_mb, 1.25
            ),
            at_most("rows that differ", 0.0 if same is None else 1.0, 0.0),
        ),
        draw(chart, out / "flux-memory-groups.png"),
    )


def _run(work: Workload, scratch: Path, *, budget_mb: int) -> Watched:
    run = _start(work, scratch, budget_mb=budget_mb)
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


def _start(work: Workload, scratch: Path, *, budget_mb: int) -> Run:
    spark = spark_session("local[2]")
    session = Session(
        spark, scratch / "checkpoint", sites=SITES, memory_budget_mb=budget_mb, end_of_input="true"
    )
    add_streams(session, spark, work)
    window = f"[RANGE {100 * work.interval_us} MICROSECONDS]"
    text = f"SELECT k, {AGGREGATES} FROM {work.streams[0].name} {window} GROUP BY k"
    session.query("groups", text, ParquetSink(scratch / "out"))
    return session.start(availableNow=True)
