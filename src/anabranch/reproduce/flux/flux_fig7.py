"""Flux, figures 7 and 8: sites slowed down by another process, for good."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from anabranch.reproduce.flux.flux_setups import (
    SITES,
    ideal_share,
    load_stage,
    loaded_sites,
    our_load,
    published_load,
    run,
    seeds,
    small_cluster,
)
from anabranch.reproduce.report.picture import Chart, draw
from anabranch.reproduce.report.result import Cell, Check, Result, Spread, Table, at_least, at_most, between
from anabranch.sim.cluster import busy_process
from anabranch.sim.trace import Trace

SLOW_SITE = 7
STEADY = 0.97
"""From when on a run stays above this share of its final throughput, it is steady."""


COUNTS = (0, 1, 8, 16, 32)


@dataclass(frozen=True, slots=True)
class OneLoaded:
    """The runs of figure 7 under one seed."""

    calm: Trace
    static: Trace
    paper: Trace
    ours: Trace

    def ideal(self, sites: int) -> float:
        return self.calm.mean_throughput(5.0) * ideal_share(sites, 1)


def flux_fig7(out: Path, *, quick: bool = False) -> Result:
    """One site of the cluster is loaded from t = 1 s on."""
    sites, until = (8, 18.0) if quick else (SITES, 30.0)
    runs = [measure_fig7(seed, sites=sites, until=until) for seed in seeds(quick=quick)]
    rows = tuple(
        _row(label, [(getattr(r, name), r.ideal(sites)) for r in runs], until)
        for name, label in (
            ("static", "static"),
            ("paper", "load policy as published"),
            ("ours", "our load policy"),
        )
    )
    first = runs[0]
    chart = Chart(
        "t (s)",
        "rows/s",
        first.calm.seconds,
        {
            "no load": first.calm.throughput,
            "static": first.static.throughput,
            "load policy as published": first.paper.throughput,
            "our load policy": first.ours.throughput,
        },
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
    )
    return Result(
        "flux-fig7",
        "one site loaded at t = 1 s",
        Table(columns, rows),
        _checks(runs, sites, until),
        draw(chart, out / "flux-fig7.png"),
    )


def measure_fig7(seed: int, *, sites: int = SITES, until: float = 30.0) -> OneLoaded:
    """All runs of the figure under one seed."""
    calm = run(load_stage(small_cluster(sites=sites), seed=seed), None, until)
    stage = load_stage(small_cluster(busy_process([SLOW_SITE], start_s=1.0), sites=sites), seed=seed)
    return OneLoaded(
        calm, run(stage, None, until), run(stage, published_load(), until), run(stage, our_load(), until)
    )


def _row(label: str, runs: list[tuple[Trace, float]], until: float) -> tuple[Cell, ...]:
    ends = [(t.mean_throughput(until - 5), ideal) for t, ideal in runs]
    steady = [t.steady_from(STEADY) for t, _ in runs]
    felt = [
        next((s - 1 for s, v in zip(t.seconds, t.throughput, strict=True) if v < 0.97 * ideal), None)
        for t, ideal in runs
    ]
    times = [f for f in felt if f is not None]
    return (
        label,
        Spread.of(end for end, _ in ends),
        Spread.of(end / ideal for end, ideal in ends),
        Spread.of(sum(at <= s for at, _ in t.moves) for (t, _), s in zip(runs, steady, strict=True)),
        Spread.of(len(t.moves) for t, _ in runs),
        Spread.of(_left_for_good(t) for t, _ in runs),
        Spread.of(times) if times else "never",
        Spread.of(steady) if times and runs[0][0].moves else "–",
    )


def _left_for_good(trace: Trace) -> int:
    return int(sum(m.source == SLOW_SITE for _, m in trace.moves)) - int(
        sum(m.target == SLOW_SITE for _, m in trace.moves)
    )


def _checks(runs: list[OneLoaded], sites: int, until: float) -> tuple[Check, ...]:
    end = until - 5
    return (
        # the claim: -57 %, the slow site's rate; 3 % either way, as the claim allows for the ideal.
        between(
            "static falls by 57 %, to the slow site's rate",
            Spread.of(1 - r.static.mean_throughput(end) / r.calm.mean_throughput(5.0) for r in runs),
            0.54,
            0.60,
        ),
        # the claim: "returns to within 3 % of the ideal".
        at_least(
            "the published policy ends within 3 % of the ideal",
            Spread.of(r.paper.mean_throughput(end) / r.ideal(sites) for r in runs),
            0.97,
        ),
        at_least("ours, too", Spread.of(r.ours.mean_throughput(end) / r.ideal(sites) for r in runs), 0.97),
        # Ours, not the paper's: it sees the load before the buffer is full.
        at_least(
            "ours never falls below 90 % of the ideal after the load",
            Spread.of(min(r.ours.throughput[2:]) / r.ideal(sites) for r in runs),
            0.9,
        ),
        # the claim asks for the time to be reported, not for the paper's 9 s; but there must be one: no
        # second of the last five may be further than 3 % below the final level.
        at_most(
            "the published policy is steady, seconds",
            Spread.of(r.paper.steady_from(STEADY) for r in runs),
            end,
        ),
    )


def flux_fig8(out: Path, *, quick: bool = False) -> Result:
    """More and more loaded sites; throughput once things are steady."""
    # 5.4: "after rebalancing has completed". On 8 sites our policy makes its last moves after 20 to 28 s.
    sites, until = (8 if quick else SITES), 40.0
    counts = (0, 1, 4, 8) if quick else COUNTS
    runs = [measure_fig8(seed, sites=sites, until=until, counts=counts) for seed in seeds(quick=quick)]
    lines = {label: [Spread.of(r[label][i] for r in runs) for i in range(len(counts))] for label in runs[0]}
    paper, ours = ([_against_line(r, label, sites, counts) for r in runs] for label in (PAPER, OURS))
    rows: tuple[tuple[Cell, ...], ...] = tuple(
        (
            n,
            *(line[i] for line in lines.values()),
            Spread.of(p[i] for p in paper),
            Spread.of(o[i] for o in ours),
        )
        for i, n in enumerate(counts)
    )
    columns = ("loaded sites", "static", "published", "ours", "published ÷ line", "ours ÷ line")
    ideal = [lines["static"][0].median * ideal_share(sites, n) for n in counts]
    chart = Chart(
        "loaded sites",
        "rows/s",
        counts,
        {label: [v.median for v in line] for label, line in lines.items()} | {"ideal": ideal},
        {},
    )
    fallen = [[v / r["static"][0] for v in r["static"][1:]] for r in runs]
    return Result(
        "flux-fig8",
        "graceful degradation",
        Table(columns, rows),
        (
            # 5.4: "drops once a single machine is perturbed and remains there": at the slow site's 0.43, with
            # 3 %.
            at_most("static drops with the first loaded site", Spread.of(f[0] for f in fallen), 0.46),
            at_most("and stays there", Spread.of(max(f) for f in fallen), 0.46),
            # "Smooth, linear": the line from unloaded to all loaded. 3 % as in figure 7, and a site's share
            # can only be met to within one of its 64 partitions: 0.97 · (1 - 1/64) = 0.955.
            at_least("the published policy follows the line", Spread.of(min(p) for p in paper), 0.95),
            at_least("ours follows it, too", Spread.of(min(o) for o in ours), 0.95),
        ),
        draw(chart, out / "flux-fig8.png"),
    )


PAPER, OURS = "load policy as published", "our load policy"


def measure_fig8(
    seed: int, *, sites: int = SITES, until: float = 40.0, counts: tuple[int, ...] = COUNTS
) -> dict[str, list[float]]:
    """Rows per second at the end, by loaded sites, under one seed."""
    series: dict[str, list[float]] = {"static": [], PAPER: [], OURS: []}
    for count in counts:
        loaded = busy_process(loaded_sites(count, sites=sites, seed=seed))
        stage = load_stage(small_cluster(loaded, sites=sites), seed=seed)
        for label, controller in zip(series, (None, published_load(), our_load()), strict=True):
            series[label].append(run(stage, controller, until).mean_throughput(until - 5))
    return series


def _against_line(
    series: dict[str, list[float]], label: str, sites: int, counts: tuple[int, ...]
) -> list[float]:
    unloaded = series["static"][0]
    return [v / (unloaded * ideal_share(sites, n)) for v, n in zip(series[label], counts, strict=True)]
