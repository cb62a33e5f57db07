"""flux-live: a crowd of keys that moves at run time, on the engine, with and without the load policy."""

from __future__ import annotations

import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from anabranch.adapt.packing import longest_first
from anabranch.bench.anabranch_join import start_join
from anabranch.bench.same_results import difference
from anabranch.exchange.partition_map import PARTITIONS
from anabranch.runtime.spark_session import spark_session
from anabranch.sim.experiments.picture import Chart, draw
from anabranch.sim.experiments.result import Result, Table, at_least, at_most
from anabranch.testing.crowded import crowded_streams
from anabranch.testing.stream_files import Workload

SITES = 8
WARM_UP = 3
COLUMNS = ("k", "a_id", "b_id")


@dataclass(frozen=True, slots=True)
class Live:
    """One run: per batch the busiest site's seconds, and what a perfect packing would have needed."""

    critical_s: list[float]
    packed_s: list[float]
    moves: int
    out: Path


def flux_live(out: Path, *, quick: bool = False) -> Result:
    """The same rows with a fixed map and with one that follows the load."""
    batches, rows, shift = (16, 8_000, 8) if quick else (32, 200_000, 16)
    with tempfile.TemporaryDirectory() as scratch:
        root = Path(scratch)
        work = crowded_streams(root / "data", batches=batches, rows_per_batch=rows, shift_every=shift)
        static = _run(work, root / "static", rebalance="off")
        adaptive = _run(work, root / "adaptive", rebalance="auto")
        same = difference(adaptive.out, static.out, COLUMNS)
    gain = sum(static.critical_s[WARM_UP:]) / sum(adaptive.critical_s[WARM_UP:])
    # The crowd that has just moved costs a few batches; what counts as packed is what is left after them.
    settled = [b for b in range(WARM_UP, batches) if b % shift >= WARM_UP]
    packing = sum(adaptive.critical_s[b] for b in settled) / sum(adaptive.packed_s[b] for b in settled)
    chart = Chart(
        "batch",
        "seconds of the busiest site",
        list(range(batches)),
        {"fixed map": static.critical_s, "load policy": adaptive.critical_s, "perfect": adaptive.packed_s},
        {},
    )
    rows_shown = (
        ("fixed map", sum(static.critical_s), 0),
        ("load policy", sum(adaptive.critical_s), adaptive.moves),
        ("perfect packing, in hindsight", sum(adaptive.packed_s), 0),
        ("load policy ÷ perfect packing, once settled", packing, 0),
    )
    return Result(
        "flux-live",
        f"a shifting crowd of keys on {SITES} sites, on Spark",
        Table(("partitioning", "critical path (s)", "moves"), rows_shown),
        (
            at_least("critical-path throughput, load policy ÷ fixed map", gain, 2.0),
            at_most("rows that differ", 0.0 if same is None else 1.0, 0.0),
        ),
        draw(chart, out / "flux-live.png"),
    )


def _run(work: Workload, scratch: Path, *, rebalance: str) -> Live:
    window_us = 5 * work.interval_us
    spark = spark_session("local[2]")
    run = start_join(
        spark,
        work,
        scratch,
        window_us=window_us,
        sites=SITES,
        rebalance=rebalance,
        skew_buffer_rows=0 if rebalance == "off" else "auto",
    )
    run.awaitTermination()
    shutil.rmtree(scratch / "checkpoint")
    progress = run.recentProgress
    return Live(
        [p["criticalPathMs"] / 1000 for p in progress],
        [_packed(p) for p in progress],
        sum(e.kind == "move_accepted" for e in run.events),
        scratch / "out",
    )


def _packed(progress: dict[str, Any]) -> float:
    """Seconds of the busiest site, had the partitions been packed perfectly for this very batch."""
    work, busy = np.zeros(PARTITIONS), np.zeros(SITES)
    for site in progress["sites"]:
        busy[site["site"]] = site["busyMs"] / 1000
        rows = {p: arrived + matched for p, arrived, matched in site["partitions"]}
        total = sum(rows.values())
        for partition, weight in rows.items():
            work[partition] += busy[site["site"]] * weight / total
    site_of = longest_first(work, np.ones(SITES))
    return float(np.bincount(site_of, weights=work, minlength=SITES).max())
