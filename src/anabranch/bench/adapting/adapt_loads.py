"""Loads on which balancing has much, little or nothing to gain: what moves, what was promised, what came."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from anabranch.adapt.events import Event
from anabranch.bench.adapting.adapt import SITES
from anabranch.bench.engine_run import WARM_UP_BATCHES
from anabranch.bench.joins.anabranch_join import add_streams, join_text
from anabranch.engine.sinks.parquet_sink import ParquetSink
from anabranch.spark.session import Session
from anabranch.workloads.crowded import crowded_streams
from anabranch.workloads.uniform import Workload, uniform_streams

TINY_ROWS = 1_000
WINDOW = 5
"""Batches."""


@dataclass(frozen=True, slots=True)
class LoadResult:
    """What balancing did with a load.

    Attributes
    ----------
    expected, observed
        Share of the critical path that moves promised to save, and saved, by the controller's own account;
        the mean over the moves. None when nothing was judged.
    least
        The worst that was observed of any group of moves.
    critical
        Critical path with balancing ÷ without, over the batches after the first.
    """

    load: str
    moves: int
    expected: float | None
    observed: float | None
    least: float | None
    critical: float


@dataclass(frozen=True, slots=True)
class _Load:
    write: Callable[[Path], Workload]
    text: Callable[[Workload], str]
    noisy: bool = False


def run_loads(spark: SparkSession, scratch: Path, *, rows: int, batches: int) -> Iterator[LoadResult]:
    """Run every load with and without balancing. Call it first: the load `cold` needs workers that are."""
    for name, load in _loads(rows, batches).items():
        work = load.write(scratch / name)
        with _neighbour() if load.noisy else nullcontext():
            moved = _run(spark, work, load.text(work), scratch / f"{name}-auto", "auto")
            fixed = _run(spark, work, load.text(work), scratch / f"{name}-off", "off")
        yield _judged(name, *moved, fixed[0])


def _loads(rows: int, batches: int) -> dict[str, _Load]:
    def uniform(root: Path) -> Workload:
        return uniform_streams(root, batches=batches, rows_per_batch=rows)

    def crowd(size: int, shift_every: int) -> Callable[[Path], Workload]:
        def write(root: Path) -> Workload:
            return crowded_streams(root, batches=batches, rows_per_batch=size, shift_every=shift_every)

        return write

    return {
        "cold": _Load(uniform, _join),
        "uniform": _Load(uniform, _join),
        "noisy": _Load(uniform, _join, noisy=True),
        "tiny": _Load(crowd(TINY_ROWS, batches), _join),
        "stateless": _Load(crowd(rows, batches), lambda _: "SELECT id, k FROM a WHERE v > 0.5"),
        "zipf": _Load(crowd(5 * rows, batches), _join),
        "shifting": _Load(crowd(5 * rows, batches // 2), _join),
    }


def _join(work: Workload) -> str:
    return join_text(work, window_us=WINDOW * work.interval_us)


def _run(
    spark: SparkSession, work: Workload, text: str, scratch: Path, rebalance: str
) -> tuple[list[Mapping[str, Any]], Sequence[Event]]:
    session = Session(
        spark, scratch / "checkpoint", sites=SITES, rebalance=rebalance, migration="off", skew_buffer_rows=0
    )
    add_streams(session, spark, work)
    session.query("q", text, ParquetSink(scratch / "out"))
    run = session.start(availableNow=True)
    run.awaitTermination()
    return list(run.recentProgress), run.events


def _judged(
    load: str,
    moved: Sequence[Mapping[str, Any]],
    events: Sequence[Event],
    fixed: Sequence[Mapping[str, Any]],
) -> LoadResult:
    judged = [e.data for e in events if e.kind == "benefit_observed" and e.data["effect"] != "unknown"]
    weight = sum(j["moves"] for j in judged)

    def mean(what: str) -> float | None:
        return sum(j["moves"] * j[what] for j in judged) / weight if weight else None

    with_, without = (
        sum(p["criticalPathMs"] for p in progress[WARM_UP_BATCHES:]) for progress in (moved, fixed)
    )
    return LoadResult(
        load,
        sum(e.kind == "move_accepted" for e in events),
        mean("expected"),
        mean("observed"),
        min((j["observed"] for j in judged), default=None),
        with_ / without,
    )


@contextmanager
def _neighbour() -> Iterator[None]:
    """Another process that takes a core now and then, for tens of milliseconds."""
    program = (
        "import random, time\n"
        "while True:\n"
        "    until = time.perf_counter() + random.uniform(0.01, 0.08)\n"
        "    while time.perf_counter() < until: pass\n"
        "    time.sleep(random.uniform(0.01, 0.08))\n"
    )
    process = subprocess.Popen([sys.executable, "-c", program])
    try:
        yield
    finally:
        process.kill()
        process.wait()
