"""Flux, figures 11 to 14: memory taken away from some sites."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from anabranch.sim.cluster import MB
from anabranch.sim.experiments.flux_setups import (
    LARGE_STATE,
    MEMORY_PARTITIONS,
    SITES,
    loaded_sites,
    memory_pressure,
    memory_stage,
    our_hybrid,
    published_memory,
    run,
    small_cluster,
)
from anabranch.sim.experiments.picture import Chart, draw
from anabranch.sim.experiments.result import Check, Result, Table, at_least, at_most
from anabranch.sim.trace import Trace

SHORT_SITE = 7
MEMORY_LEFT = 512 * MB
"""Of a site that has lost the other half."""


def flux_fig11(out: Path, *, quick: bool = False) -> Result:
    """Throughput while one site's memory is halved at t = 1 s."""
    calm, runs, until = _halved(quick)
    unloaded = calm.mean_throughput(until - 10)
    ends = {label: trace.mean_throughput(until - 10) for label, trace in runs.items()}
    rows = tuple(
        (label, ends[label], ends[label] / unloaded, len(t.moves), t.last_move_s(), t.spilled_at_end)
        for label, t in runs.items()
    )
    chart = Chart(
        "t (s)", "rows/s", calm.seconds, {k: t.throughput for k, t in runs.items()}, {"unloaded": unloaded}
    )
    columns = (
        "partitioning",
        "rows/s at the end",
        "÷ unloaded",
        "moves",
        "last move (s)",
        "on disk at the end",
    )
    static, paper, ours = runs.values()
    back = 0.98 * _left_to_gain(8 if quick else SITES, 1)  # 0.97 with the paper's 32 sites
    return Result(
        "flux-fig11",
        "memory of one site halved: throughput",
        Table(columns, rows),
        (
            at_most("static stays slow: ÷ unloaded", static.mean_throughput(until - 10) / unloaded, 0.6),
            at_least(
                "the memory policy returns: ÷ unloaded", paper.mean_throughput(until - 10) / unloaded, back
            ),
            at_least("our hybrid policy, too", ours.mean_throughput(until - 10) / unloaded, back),
            at_most("everything is in memory again", paper.spilled_at_end + ours.spilled_at_end, 0),
        ),
        draw(chart, out / "flux-fig11.png"),
    )


def flux_fig12(out: Path, *, quick: bool = False) -> Result:
    """Latency in the same runs."""
    calm, runs, until = _halved(quick)
    in_memory = calm.mean_latency(until - 10)
    rows = tuple(
        (
            label,
            max(t.latency_s) * 1e3,
            t.mean_latency(until - 10) * 1e3,
            t.mean_latency(until - 10) / in_memory,
        )
        for label, t in runs.items()
    )
    chart = Chart(
        "t (s)",
        "mean latency (ms)",
        calm.seconds,
        {k: [max(v * 1e3, 1e-2) for v in t.latency_s] for k, t in runs.items()},
        {"unloaded": in_memory * 1e3},
        log_y=True,
    )
    static, paper, ours = runs.values()
    columns = ("partitioning", "worst second (ms)", "at the end (ms)", "÷ in memory")
    return Result(
        "flux-fig12",
        "memory of one site halved: latency",
        Table(columns, rows),
        (
            at_least("static stays late: ÷ in memory", static.mean_latency(until - 10) / in_memory, 100),
            at_most(
                "the memory policy returns: ÷ in memory", paper.mean_latency(until - 10) / in_memory, 1.05
            ),
            at_most("our hybrid policy, too", ours.mean_latency(until - 10) / in_memory, 1.05),
        ),
        draw(chart, out / "flux-fig12.png"),
    )


@cache
def _halved(quick: bool) -> tuple[Trace, dict[str, Trace], float]:
    sites, until = (8, 50.0) if quick else (SITES, 60.0)
    calm = run(memory_stage(small_cluster(sites=sites)), None, until)
    stage = memory_stage(small_cluster(memory_pressure([SHORT_SITE], start_s=1.0), sites=sites))
    return (
        calm,
        {
            "static": run(stage, None, until),
            "memory policy as published": run(stage, published_memory(), until),
            "our hybrid policy": run(stage, our_hybrid(), until),
        },
        until,
    )


def flux_fig13(out: Path, *, quick: bool = False) -> Result:
    """Throughput against the number of sites that lost half of their memory."""
    counts, static, adaptive = _degraded(quick)
    calm = static[0].mean_throughput(LAST[0])
    tops = {k: [t.mean_throughput(LAST[0]) for t in v] for k, v in (("s", static), ("a", adaptive))}
    rows = tuple(
        (n, s, a, s / calm, a / calm, t.spilled_at_end)
        for n, s, a, t in zip(counts, tops["s"], tops["a"], adaptive, strict=True)
    )
    chart = Chart(
        "sites short of memory", "rows/s", counts, {"static": tops["s"], "memory policy": tops["a"]}, {}
    )
    columns = (
        "short sites",
        "static rows/s",
        "memory policy rows/s",
        "static ÷",
        "policy ÷",
        "on disk (policy)",
    )
    return Result(
        "flux-fig13",
        "throughput by sites short of memory",
        Table(columns, rows),
        _cliff_checks(counts, [s / calm for s in tops["s"]], [a / calm for a in tops["a"]]),
        draw(chart, out / "flux-fig13.png"),
    )


def flux_fig14(out: Path, *, quick: bool = False) -> Result:
    """Latency against the number of sites that lost half of their memory."""
    counts, static, adaptive = _degraded(quick)
    base = static[0].mean_latency(LAST[0])
    late = [t.mean_latency(LAST[0]) / base for t in static]
    kept = [t.mean_latency(LAST[0]) / base for t in adaptive]
    rows = tuple(
        (n, s * base * 1e3, a * base * 1e3, s, a) for n, s, a in zip(counts, late, kept, strict=True)
    )
    chart = Chart(
        "sites short of memory",
        "mean latency (ms)",
        counts,
        {"static": [v * base * 1e3 for v in late], "memory policy": [v * base * 1e3 for v in kept]},
        {},
        log_y=True,
    )
    inside = [a for n, a in zip(counts, kept, strict=True) if n < _limit(counts)]
    ended = [a for n, a in zip(counts, kept, strict=True) if n >= _limit(counts)]
    return Result(
        "flux-fig14",
        "latency by sites short of memory",
        Table(("short sites", "static (ms)", "memory policy (ms)", "static ÷", "policy ÷"), rows),
        (
            at_least("static is orders of magnitude later from the first site on", min(late[1:]), 100),
            at_most("the policy keeps in-memory latency while memory lasts", max(inside), 1.1),
            at_least("where memory ends, latency rises", ended[0], 10),
            at_least("and goes on rising steeply", ended[-1], 1000),
        ),
        draw(chart, out / "flux-fig14.png"),
    )


LAST = (160.0, 200.0)
"""Steady state: this part of the run, in seconds."""


@cache
def _degraded(quick: bool) -> tuple[tuple[int, ...], list[Trace], list[Trace]]:
    sites = 8 if quick else SITES
    counts = (0, 1, 6) if quick else (0, 1, 4, 8, 12, 15, 16, 20, 24)
    static, adaptive = [], []
    for count in counts:
        cluster = small_cluster(memory_pressure(loaded_sites(count, sites=sites)), sites=sites)
        stage = memory_stage(cluster, tick_s=0.02)
        static.append(run(stage, None, LAST[1]))
        adaptive.append(run(stage, published_memory(), LAST[1]))
    return counts, static, adaptive


def _limit(counts: tuple[int, ...]) -> int:
    """Half of the sites: 768 of 1,024 MB are in use everywhere, and each loses 512."""
    return 16 if max(counts) > 8 else 4


def _left_to_gain(sites: int, short: int) -> float:
    """Throughput, against unloaded, when the short sites keep what fits and the others share the rest evenly.

    Memory is not all: sites that take partitions over have more to do, and the stage is as fast as they are.
    """
    kept = int(MEMORY_LEFT // LARGE_STATE)
    return MEMORY_PARTITIONS * (sites - short) / (MEMORY_PARTITIONS * sites - kept * short)


def _cliff_checks(counts: tuple[int, ...], static: list[float], policy: list[float]) -> tuple[Check, ...]:
    limit = _limit(counts)
    inside = [(n, a) for n, a in zip(counts, policy, strict=True) if n < limit]
    beyond = [a for n, a in zip(counts, policy, strict=True) if n >= limit]
    return (
        at_most("static drops with the first site: ÷ unloaded", max(static[1:]), 0.6),
        at_least(
            "while memory lasts, the policy has what the sites' CPUs allow",
            min(a / _left_to_gain(2 * limit, n) for n, a in inside),
            0.95,
        ),
        at_most("where memory ends, it drops steeply: ÷ before", max(beyond) / inside[-1][1], 0.5),
    )
