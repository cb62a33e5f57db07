"""flux-memory: a state several times larger than the memory its sites may use, on the engine."""

from __future__ import annotations

import os
import tempfile
from dataclasses import dataclass
from pathlib import Path

from anabranch.bench.anabranch_join import start_join
from anabranch.bench.same_results import difference
from anabranch.bench.worker_memory import python_workers
from anabranch.runtime.spark_session import spark_session
from anabranch.sim.experiments.picture import Chart, draw
from anabranch.sim.experiments.result import Result, Table, at_least, at_most
from anabranch.testing.stream_files import Workload
from anabranch.testing.workloads import uniform_streams

SITES = 4
COLUMNS = ("k", "a_id", "b_id")


@dataclass(frozen=True, slots=True)
class Bounded:
    """One run: per step the state, what of it was worked on at the busiest site, and worker memory."""

    state_mb: list[float]
    in_memory_mb: list[float]
    worker_mb: float
    out: Path


def flux_memory(out: Path, *, quick: bool = False) -> Result:
    """The same rows with and without a budget of a quarter of the state."""
    batches, rows = (8, 20_000) if quick else (20, 100_000)
    with tempfile.TemporaryDirectory() as scratch:
        root = Path(scratch)
        work = uniform_streams(root / "data", batches=batches, rows_per_batch=rows)
        free = _run(work, root / "free", budget_mb=0)
        budget_mb = max(1, round(max(free.state_mb) / SITES / 4))
        bounded = _run(work, root / "bounded", budget_mb=budget_mb)
        same = difference(bounded.out, free.out, COLUMNS)
    steps = list(range(len(bounded.state_mb)))
    chart = Chart(
        "step",
        "MiB per site",
        steps,
        {"state": [s / SITES for s in bounded.state_mb], "worked on": bounded.in_memory_mb},
        {"budget": float(budget_mb)},
    )
    rows_shown = (
        ("no budget", max(free.state_mb), max(free.in_memory_mb), free.worker_mb, len(free.state_mb)),
        ("budget", max(bounded.state_mb), max(bounded.in_memory_mb), bounded.worker_mb, len(steps)),
    )
    held = max(bounded.in_memory_mb) / budget_mb
    return Result(
        "flux-memory",
        f"a budget of {budget_mb} MiB at each of {SITES} sites",
        Table(
            ("run", "state (MiB)", "worked on at a site (MiB)", "worker, private (MiB)", "steps"),
            rows_shown,
        ),
        (
            at_least("state ÷ budget", max(bounded.state_mb) / SITES / budget_mb, 3.0),
            at_most("worked on at a site ÷ budget", held, 1.1),
            at_most("private memory of a worker ÷ without a budget", bounded.worker_mb / free.worker_mb, 1.1),
            at_most("rows that differ", 0.0 if same is None else 1.0, 0.0),
        ),
        draw(chart, out / "flux-memory.png"),
    )


def _run(work: Workload, scratch: Path, *, budget_mb: int) -> Bounded:
    window_us = 100 * work.interval_us
    spark = spark_session("local[2]")
    run = start_join(spark, work, scratch, window_us=window_us, sites=SITES, memory_budget_mb=budget_mb)
    private = 0.0
    while not run.awaitTermination(0.2):
        private = max([private, *(w.anonymous / 2**20 for w in python_workers(os.getpid()))])
    progress = run.recentProgress
    return Bounded(
        [p["state"]["memoryUsedBytes"] / 2**20 for p in progress],
        [max((s["stateBytes"] for s in p["sites"]), default=0) / 2**20 for p in progress],
        private,
        scratch / "out",
    )
