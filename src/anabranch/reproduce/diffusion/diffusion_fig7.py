"""diffusion-fig7 to -fig10: a join of 40-dimensional vectors at one site and over six, on the engine."""

from __future__ import annotations

import time
from pathlib import Path
from statistics import median

import numpy as np

from anabranch.engine.settings import Settings
from anabranch.exchange.address import PARTITIONS
from anabranch.exchange.aligned_router import AlignedRouter, AlignedTable, Member
from anabranch.reproduce.diffusion.diffusion_run import DiffusionTrace, run_diffusion
from anabranch.reproduce.diffusion.video_streams import BATCH_US, STREAMS, VideoStreams, video_query
from anabranch.reproduce.report.picture import Chart, draw
from anabranch.reproduce.report.result import Result, Table, at_least, at_most
from anabranch.testing.oracle_compare import compare_rows

SITES = 6
DECISIONS = 200
"""Over which the time of a routing decision is taken."""


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
        (label, trace.path_s(filling), trace.replication(filling), results[label].num_rows)
        for label, trace in traces.items()
    )
    shown = [label for label in traces if label != "semantics-unaware"]
    total = {label: list(np.cumsum(traces[label].critical_s)) for label in shown}
    chart = Chart("batch", "critical path so far (s)", list(range(batches)), total, {})
    return Result(
        name,
        f"3-way join of 40-dimensional vectors, W = {window_s} s, {SITES} sites, {rate} rows/s per stream",
        Table(("routing", "critical path (s)", "rows at sites ÷ rows", "results"), rows),
        (
            at_least("critical path of one site ÷ that of aligned routing", gain["aligned"], 4.0),
            at_least("critical path of one site ÷ that of coordinated routing", gain["coordinated"], 1.5),
            at_most("results that differ from those of one site", float(differing), 0.0),
            at_most("share of the results that semantics-unaware routing finds", found, 0.9),
        ),
        draw(chart, out / f"{name}.png"),
    )


def diffusion_fig9(out: Path, *, quick: bool = False) -> Result:
    """Time of a routing decision, W = 60 s."""
    return _decisions("diffusion-fig9", window_s=60)


def diffusion_fig10(out: Path, *, quick: bool = False) -> Result:
    """Time of a routing decision, W = 120 s."""
    return _decisions("diffusion-fig10", window_s=120)


def _decisions(name: str, *, window_s: int) -> Result:
    """Deciding another run of segments, and placing a segment's rows with it."""
    window_us, length_us = window_s * 1_000_000, 2_000_000
    members = tuple(Member(alias, i, window_us) for i, alias in enumerate("abc"))
    table = AlignedTable.single("a", length_us, range(SITES))
    deciding, placing = [], []
    draw_from = np.random.default_rng(3)
    for number in range(1, DECISIONS + 1):
        cycle = tuple(draw_from.integers(0, PARTITIONS, SITES).tolist())
        began = time.process_time()
        table = table.continued(number * length_us, length=length_us, cycle=cycle)
        table = table.without_before({"a": number * length_us - 2 * window_us})
        deciding.append(time.process_time() - began)
        times = number * length_us + np.sort(draw_from.integers(0, length_us, 600))
        began = time.process_time()
        AlignedRouter(members, table).copies(members[1], times)
        placing.append((time.process_time() - began) / len(times))
    decision_us, row_us = median(deciding) * 1e6, median(placing) * 1e6
    return Result(
        name,
        f"time of a routing decision, W = {window_s} s, another decision every segment",
        Table(("what", "µs"), (("a segment", decision_us), ("a slave row placed", row_us))),
        (at_most("µs per segment", decision_us, 100.0),),
        None,
    )
