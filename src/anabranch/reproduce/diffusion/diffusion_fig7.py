"""diffusion-fig7 and -fig8: a join of 40-dimensional vectors at one site and over six, on the engine."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from anabranch.engine.settings import Settings
from anabranch.reproduce.diffusion.diffusion_run import DiffusionTrace, run_diffusion
from anabranch.reproduce.diffusion.video_streams import BATCH_US, STREAMS, VideoStreams, video_query
from anabranch.reproduce.report.picture import Chart, draw
from anabranch.reproduce.report.result import Result, Table, at_least, at_most
from anabranch.testing.oracle_compare import compare_rows

SITES = 6


def diffusion_fig7(out: Path, *, quick: bool = False) -> Result:
    """W = 60 s: aligned routing against one site, and against routing that does not know the windows."""
    return _compared("diffusion-fig7", out, window_s=60, quick=quick)


def diffusion_fig8(out: Path, *, quick: bool = False) -> Result:
    """W = 120 s."""
    return _compared("diffusion-fig8", out, window_s=120, quick=quick)


def _compared(name: str, out: Path, *, window_s: int, quick: bool) -> Result:
    rate, steady = (150, 4) if quick else (300, 8)
    filling = window_s * 1_000_000 // BATCH_US
    streams = VideoStreams(rate, scenes=rate * window_s // 2)
    batches = filling + steady

    def run(routing: str, *, unaware: bool = False) -> DiffusionTrace:
        settings = Settings(
            sites=SITES, slots=1, routing=routing, migration="off", rebalance="off", quota_pairs=1 << 40
        )
        return run_diffusion(
            STREAMS, video_query(window_s), streams.batches(batches), settings, unaware=unaware
        )

    traces = {
        "one site": run("hash"),
        "aligned": run("aligned"),
        "coordinated": run("coordinated"),
        "semantics-unaware": run("aligned", unaware=True),
    }
    results = {label: trace.results for label, trace in traces.items() if trace.results is not None}
    differing = sum(
        not compare_rows(results[label], results["one site"]).empty for label in ("aligned", "coordinated")
    )
    one_s = traces["one site"].path_s(filling)
    gain = {label: one_s / traces[label].path_s(filling) for label in ("aligned", "coordinated")}
    found = results["semantics-unaware"].num_rows / results["one site"].num_rows
    rows = tuple(
        (
            label,
            trace.path_s(filling),
            trace.replication(filling),
            trace.state_mb[-1],
            results[label].num_rows,
        )
        for label, trace in traces.items()
    )
    shown = [label for label in traces if label != "semantics-unaware"]
    total = {label: list(np.cumsum(traces[label].critical_s)) for label in shown}
    chart = Chart("batch", "critical path so far (s)", list(range(batches)), total, {})
    return Result(
        name,
        f"3-way join of 40-dimensional vectors, W = {window_s} s, {SITES} sites, {rate} rows/s per stream",
        Table(("routing", "critical path (s)", "rows at sites ÷ rows", "fullest site (MB)", "results"), rows),
        (
            at_least("critical path of one site ÷ that of aligned routing", gain["aligned"], 4.0),
            at_least("critical path of one site ÷ that of coordinated routing", gain["coordinated"], 1.5),
            at_most("results that differ from those of one site", float(differing), 0.0),
            at_most("share of the results that semantics-unaware routing finds", found, 0.9),
        ),
        draw(chart, out / f"{name}.png"),
    )
