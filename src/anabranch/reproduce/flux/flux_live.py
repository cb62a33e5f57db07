"""flux-live: a crowd of keys that moves at run time, on the engine, with and without the load policy."""

from __future__ import annotations

import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from anabranch.adapt.balance.packing import longest_first
from anabranch.bench.joins.anabranch_join import start_join
from anabranch.bench.same_results import difference
from anabranch.engine.progress import Progress
from anabranch.exchange.address import PARTITIONS
from anabranch.reproduce.report.picture import Chart, draw
from anabranch.reproduce.report.result import Result, Table, at_least, at_most
from anabranch.spark.start.spark_session import spark_session
from anabranch.workloads.crowded import crowded_streams
from anabranch.workloads.stream_files import Workload

Floats = npt.NDArray[np.float64]

SITES = 8
WARM_UP = 3
COLUMNS = ("k", "a_id", "b_id")


@dataclass(frozen=True, slots=True)
class Live:
    """One run: seconds by batch and site, and by batch and partition."""

    busy_s: Floats
    work_s: Floats
    moves: int
    out: Path

    @property
    def critical_s(self) -> list[float]:
        """The busiest site's, by batch."""
        return [float(s) for s in self.busy_s.max(axis=1)]

    @property
    def packed_s(self) -> list[float]:
        """The same, had the partitions been packed perfectly for this very batch."""
        return [_packed(work) for work in self.work_s]

    def uneven(self, batches: list[int]) -> float:
        """The busiest site over several batches ÷ a perfect packing for all of them together."""
        return float(self.busy_s[batches].sum(axis=0).max()) / _packed(self.work_s[batches].sum(axis=0))


def flux_live(out: Path, *, quick: bool = False) -> Result:
    """The same rows with a fixed map and with one that follows the load."""
    batches, rows, shift = (16, 40_000, 8) if quick else (32, 200_000, 16)
    with tempfile.TemporaryDirectory() as scratch:
        root = Path(scratch)
        work = crowded_streams(root / "data", batches=batches, rows_per_batch=rows, shift_every=shift)
        static = _run(work, root / "static", rebalance="off")
        adaptive = _run(work, root / "adaptive", rebalance="auto")
        same = difference(adaptive.out, static.out, COLUMNS)
    gain = sum(static.critical_s[WARM_UP:]) / sum(adaptive.critical_s[WARM_UP:])
    # The crowd that has just moved costs a few batches; what counts as packed is what is left after them.
    calm = [range(start + WARM_UP, min(start + shift, batches)) for start in range(0, batches, shift)]
    settled = [batch for stretch in calm for batch in stretch]
    critical, packed = adaptive.critical_s, adaptive.packed_s
    packing = sum(critical[b] for b in settled) / sum(packed[b] for b in settled)
    uneven = max(adaptive.uneven(list(stretch)) for stretch in calm)
    chart = Chart(
        "batch",
        "seconds of the busiest site",
        list(range(batches)),
        {"fixed map": static.critical_s, "load policy": critical, "perfect": packed},
        {},
    )
    rows_shown = (
        ("fixed map", sum(static.critical_s), "–", "–", 0),
        ("load policy", sum(critical), packing, uneven, adaptive.moves),
        ("perfect packing of every batch, in hindsight", sum(packed), 1.0, "–", 0),
    )
    return Result(
        "flux-live",
        f"a shifting crowd of keys on {SITES} sites, on Spark",
        Table(
            (
                "partitioning",
                "critical path (s)",
                "once settled ÷ a packing of every batch",
                "÷ one of all batches between two shifts",
                "moves",
            ),
            rows_shown,
        ),
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
    seconds = [_seconds(progress) for progress in run.recentProgress]
    return Live(
        np.array([busy for busy, _ in seconds]),
        np.array([work for _, work in seconds]),
        sum(e.kind == "move_accepted" for e in run.events),
        scratch / "out",
    )


def _seconds(progress: Progress) -> tuple[Floats, Floats]:
    """Seconds of a batch by site and by partition; a site's are shared among its partitions by their rows."""
    work, busy = np.zeros(PARTITIONS), np.zeros(SITES)
    for site in progress.sites:
        busy[site.site] = site.busy_ms / 1000
        rows = {p: arrived + matched for p, arrived, matched in site.partitions}
        total = sum(rows.values())
        for partition, weight in rows.items():
            work[partition] += busy[site.site] * weight / total
    return busy, work


def _packed(work: Floats) -> float:
    """Seconds of the busiest site, with the partitions packed perfectly."""
    site_of = longest_first(work, np.ones(SITES))
    return float(np.bincount(site_of, weights=work, minlength=SITES).max())
