"""Flux, figures 7 and 8: sites slowed down by another process, for good."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from anabranch.sim.cluster import busy_process
from anabranch.sim.experiments.flux_setups import (
    SITES,
    ideal_share,
    load_stage,
    loaded_sites,
    our_load,
    published_load,
    run,
    small_cluster,
)
from anabranch.sim.experiments.picture import Chart, draw
from anabranch.sim.experiments.result import Check, Result, Table, at_least, at_most, between
from anabranch.sim.trace import Trace

SLOW_SITE = 7
STEADY = 0.95
"""From when on a run stays above this share of its final throughput, it is steady."""


def flux_fig7(out: Path, *, quick: bool = False) -> Result:
    """One site of the cluster is loaded from t = 1 s on."""
    sites, until = (8, 18.0) if quick else (SITES, 30.0)
    calm = run(load_stage(small_cluster(sites=sites)), None, until)
    stage = load_stage(small_cluster(busy_process([SLOW_SITE], start_s=1.0), sites=sites))
    static, paper, ours = (run(stage, c, until) for c in (None, published_load(), our_load()))
    ideal = calm.mean_throughput(5.0) * ideal_share(sites, 1)
    runs = {"static": static, "load policy as published": paper, "our load policy": ours}
    rows = tuple(_row(label, trace, ideal, until) for label, trace in runs.items())
    chart = Chart(
        "t (s)",
        "rows/s",
        calm.seconds,
        {"no load": calm.throughput} | {label: t.throughput for label, t in runs.items()},
        {},
    )
    columns = (
        "partitioning",
        "rows/s at the end",
        "÷ ideal",
        "moves until steady",
        "in all",
        "left the loaded site",
        "feels it at (s)",
        "steady at (s)",
        "rows/s from t = 1 s",
    )
    return Result(
        "flux-fig7",
        "one site loaded at t = 1 s",
        Table(columns, rows),
        _checks(calm, static, paper, ours, ideal, until),
        draw(chart, out / "flux-fig7.png"),
    )


def _row(label: str, trace: Trace, ideal: float, until: float) -> tuple[str | int | float, ...]:
    end = trace.mean_throughput(until - 5)
    steady = trace.steady_from(STEADY)
    felt = next(
        (s - 1 for s, t in zip(trace.seconds, trace.throughput, strict=True) if t < 0.97 * ideal), None
    )
    return (
        label,
        end,
        end / ideal,
        sum(t <= steady for t, _ in trace.moves),
        len(trace.moves),
        _left_for_good(trace),
        "never" if felt is None else felt,
        steady if trace.moves and felt is not None else "–",
        trace.mean_throughput(1.0),
    )


def _left_for_good(trace: Trace) -> int:
    return int(sum(m.source == SLOW_SITE for _, m in trace.moves)) - int(
        sum(m.target == SLOW_SITE for _, m in trace.moves)
    )


def _checks(
    calm: Trace, static: Trace, paper: Trace, ours: Trace, ideal: float, until: float
) -> tuple[Check, ...]:
    unloaded = calm.mean_throughput(5.0)
    end = until - 5
    return (
        between(
            "static falls by about 57 %, to the slow site's rate",
            1 - static.mean_throughput(end) / unloaded,
            0.50,
            0.64,
        ),
        at_least(
            "the published policy ends within 3 % of the ideal", paper.mean_throughput(end) / ideal, 0.97
        ),
        at_least("ours, too", ours.mean_throughput(end) / ideal, 0.97),
        at_least(
            "ours never falls below 90 % of the ideal after the load", min(ours.throughput[2:]) / ideal, 0.9
        ),
        at_most("the published policy is steady again, seconds", paper.steady_from(STEADY), until - 5),
    )


def flux_fig8(out: Path, *, quick: bool = False) -> Result:
    """More and more loaded sites; throughput once things are steady."""
    sites, until = (8, 20.0) if quick else (SITES, 40.0)
    counts = (0, 1, 4, 8) if quick else (0, 1, 2, 4, 8, 16, 24, 32)
    series: dict[str, list[float]] = {"static": [], "load policy as published": [], "our load policy": []}
    for count in counts:
        stage = load_stage(small_cluster(busy_process(loaded_sites(count, sites=sites)), sites=sites))
        for label, controller in zip(series, (None, published_load(), our_load()), strict=True):
            series[label].append(run(stage, controller, until).mean_throughput(until - 5))
    static, paper, ours = series.values()
    ideal = [static[0] * ideal_share(sites, n) for n in counts]
    rows = tuple(
        (n, s, p, o, i, p / i, o / i)
        for n, s, p, o, i in zip(counts, static, paper, ours, ideal, strict=True)
    )
    columns = ("loaded sites", "static", "published", "ours", "ideal", "published ÷ ideal", "ours ÷ ideal")
    chart = Chart("loaded sites", "rows/s", counts, {**series, "ideal": ideal}, {})
    return Result(
        "flux-fig8",
        "graceful degradation",
        Table(columns, rows),
        (
            at_most("static drops with the first loaded site", static[1] / static[0], 0.5),
            at_most("and stays there", max(static[1:]) / static[0], 0.5),
            at_least("the published policy follows the straight line", _worst(paper, ideal), 0.88),
            at_least("ours follows it, too", _worst(ours, ideal), 0.93),
        ),
        draw(chart, out / "flux-fig8.png"),
    )


def _worst(values: list[float], ideal: list[float]) -> float:
    return float(np.min(np.array(values) / np.array(ideal)))
