"""diffusion-fig7 and -fig8: a join of 40-dimensional vectors at one site and over six, on the engine.

Both ways of routing run twice: as they are, and where every site has a memory budget, as the hosts of the
paper have. Theirs shed rows when it is full. Ours work in turns: rows wait, results are late, none is lost.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from anabranch.engine.settings import Settings
from anabranch.reproduce.diffusion.diffusion_run import DiffusionTrace, run_diffusion
from anabranch.reproduce.diffusion.video_streams import BATCH_US, STREAMS, VideoStreams, video_query
from anabranch.reproduce.report.picture import Chart, draw
from anabranch.reproduce.report.result import Check, Result, Table, at_least, at_most
from anabranch.testing.oracle_compare import compare_rows

SITES = 6
MIB_PER_RATE = 1 / 10
"""Memory budget of a site for each row per second of a stream: more than both ways of routing need with
W = 60 s, and with W = 120 s more than coordinated routing needs and less than aligned routing does.
"""
SPREAD = ("aligned", "coordinated")


def diffusion_fig7(out: Path, *, quick: bool = False) -> Result:
    """W = 60 s: aligned routing against one site, and against routing that does not know the windows."""
    return _compared("diffusion-fig7", out, window_s=60, quick=quick)


def diffusion_fig8(out: Path, *, quick: bool = False) -> Result:
    """W = 120 s: more than the memory of six sites has room for with aligned routing."""
    return _compared("diffusion-fig8", out, window_s=120, quick=quick)


def _compared(name: str, out: Path, *, window_s: int, quick: bool) -> Result:
    rate, steady = 300, 3 if quick else 8
    filling = window_s * 1_000_000 // BATCH_US
    streams = VideoStreams(rate, scenes=rate * window_s // 2)
    batches = filling + steady

    def run(routing: str, *, unaware: bool = False, budget_mb: int = 0) -> DiffusionTrace:
        settings = Settings(
            sites=SITES,
            slots=1,
            routing=routing,
            migration="off",
            rebalance="off",
            memory_budget_mb=budget_mb,
            skew_buffer_rows=0,
            quota_pairs=1 << 40,
        )
        return run_diffusion(
            STREAMS, video_query(window_s), streams.batches(batches), settings, unaware=unaware
        )

    traces = {"one site": run("hash")} | {routing: run(routing) for routing in SPREAD}
    budget_mb = int(rate * MIB_PER_RATE)
    bounded = {routing: run(routing, budget_mb=budget_mb) for routing in SPREAD}
    unaware = run("aligned", unaware=True)
    shown = traces | {f"{routing}, bounded": trace for routing, trace in bounded.items()}
    rows = tuple(
        (
            label,
            trace.path_s(filling),
            trace.drained_s,
            trace.replication(filling),
            max(trace.state_mb),
            trace.found[-1],
        )
        for label, trace in (*shown.items(), ("semantics-unaware", unaware))
    )
    total = {label: list(np.cumsum(trace.critical_s)) for label, trace in traces.items()}
    chart = Chart("batch", "critical path so far (s)", list(range(batches)), total, {})
    heads = (
        "critical path (s)",
        "of rows that waited (s)",
        "rows at sites ÷ rows",
        "fullest site (MB)",
        "results",
    )
    return Result(
        name,
        f"3-way join of 40-dimensional vectors, W = {window_s} s, {SITES} sites, {rate} rows/s per stream; "
        f"bounded: {budget_mb} MiB a site",
        Table(("routing", *heads), rows),
        (
            *_gains(traces, filling),
            _in_time(bounded, filling, coordinated_is_ahead=window_s > 60),
            at_most("results that differ from those of one site", _differing(shown), 0.0),
            at_most("share of the results found without regard to semantics", _share(unaware, traces), 0.9),
        ),
        draw(chart, out / f"{name}.png"),
    )


def _gains(traces: dict[str, DiffusionTrace], filling: int) -> tuple[Check, ...]:
    one_s, aligned_s, coordinated_s = (traces[label].path_s(filling) for label in ("one site", *SPREAD))
    return (
        at_least("critical path of one site ÷ that of aligned routing", one_s / aligned_s, 4.0),
        at_least("critical path of one site ÷ that of coordinated routing", one_s / coordinated_s, 1.5),
    )


def _in_time(bounded: dict[str, DiffusionTrace], filling: int, *, coordinated_is_ahead: bool) -> Check:
    """Which way is ahead where memory is bounded: by results so far, or by its path if all are in time."""
    aligned, coordinated = (bounded[routing] for routing in SPREAD)
    if coordinated_is_ahead:
        ratio = sum(coordinated.found[filling:]) / sum(aligned.found[filling:])
        return at_least("bounded memory, results so far: coordinated ÷ aligned", ratio, 1.05)
    late = any(trace.found[-1] < trace.results.num_rows for trace in bounded.values() if trace.results)
    ratio = 0.0 if late else coordinated.path_s(filling) / aligned.path_s(filling)
    return at_least("bounded memory, critical path: coordinated ÷ aligned, all results in time", ratio, 1.0)


def _differing(traces: dict[str, DiffusionTrace]) -> float:
    """Ways of routing whose results, with those that came late, are not those of one site."""
    wanted, *others = (trace.results for trace in traces.values() if trace.results is not None)
    return float(sum(not compare_rows(found, wanted).empty for found in others))


def _share(unaware: DiffusionTrace, traces: dict[str, DiffusionTrace]) -> float:
    return unaware.found[-1] / traces["one site"].found[-1]
