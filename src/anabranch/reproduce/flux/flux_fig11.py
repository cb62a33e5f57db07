"""Flux, figures 11 to 14: memory taken away from some sites."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from anabranch.reproduce.flux.flux_setups import (
    LARGE_STATE,
    MEMORY_PARTITIONS,
    SITES,
    loaded_sites,
    memory_pressure,
    memory_stage,
    our_hybrid,
    published_memory,
    run,
    seeds,
    small_cluster,
)
from anabranch.reproduce.report.picture import Chart, draw
from anabranch.reproduce.report.result import Cell, Check, Result, Spread, Table, at_least, at_most, between
from anabranch.sim.cluster import MB
from anabranch.sim.trace import Trace

SHORT_SITE = 7
MEMORY_LEFT = 512 * MB
"""Of a site that has lost the other half."""


COUNTS = (0, 1, 15, 16, 24)
STEADY_S = 40.0
"""Steady state: so much at the end of a run, long enough for a turn of 43 partitions of 0.9 s."""


def _until(count: int, *, adaptive: bool) -> float:
    """When to end: "after rebalancing has completed" (6.3), which takes 16 short sites more than 150 s."""
    return 240.0 if adaptive and count > 1 else 120.0


ROTATING = 1 / 3
"""What a site with something on disk can do at most: section 6.3 has 0.9 s from one partition to the next, of
which writing one (6 MB at 20 MB/s) and reading the other take 0.6 s."""

GIVE_OR_TAKE = 0.03
"""As in the claim."""


@dataclass(frozen=True, slots=True)
class Halved:
    """The runs of figures 11 and 12 under one seed."""

    calm: Trace
    static: Trace
    paper: Trace
    ours: Trace


LABELS = (("static", "static"), ("paper", "memory policy as published"), ("ours", "our hybrid policy"))


def flux_fig11(out: Path, *, quick: bool = False) -> Result:
    """Throughput while one site's memory is halved at t = 1 s."""
    sites, until = _size(quick)
    runs = [measure_fig11(seed, sites=sites, until=until) for seed in seeds(quick=quick)]

    def kept(trace: Callable[[Halved], Trace]) -> Spread:
        return Spread.of(
            trace(r).mean_throughput(until - 10) / r.calm.mean_throughput(until - 10) for r in runs
        )

    rows = tuple(
        _halved_row(label, [(getattr(r, name), r.calm) for r in runs], until) for name, label in LABELS
    )
    first = runs[0]
    chart = Chart(
        "t (s)",
        "rows/s",
        first.calm.seconds,
        {label: getattr(first, name).throughput for name, label in LABELS},
        {"unloaded": first.calm.mean_throughput(until - 10)},
    )
    columns = (
        "partitioning",
        "rows/s at the end",
        "÷ unloaded",
        "moves",
        "last move (s)",
        "on disk at the end",
    )
    # 6.3: "reaches the unloaded case"; arrived means within 3 %, as in the claim for figure 7. On the 8 sites
    # of the test, the other seven have too much more to do for that, and 3 % is counted from what they can.
    back = 0.97 * (_left_to_gain(sites, 1) if quick else 1.0)
    return Result(
        "flux-fig11",
        "memory of one site halved: throughput",
        Table(columns, rows),
        (
            # 6.3: "at a much reduced rate, because it is cycling through the on-disk partitions".
            at_most("static stays slow: ÷ unloaded", kept(lambda r: r.static), ROTATING + GIVE_OR_TAKE),
            at_least("the memory policy returns: ÷ unloaded", kept(lambda r: r.paper), back),
            at_least("our hybrid policy, too", kept(lambda r: r.ours), back),
            # 6.3: "once all the partitions are in memory".
            at_most(
                "partitions on disk at the end",
                Spread.of(r.paper.spilled_at_end + r.ours.spilled_at_end for r in runs),
                0,
            ),
        ),
        draw(chart, out / "flux-fig11.png"),
    )


def _halved_row(label: str, runs: list[tuple[Trace, Trace]], until: float) -> tuple[Cell, ...]:
    ends = [(t.mean_throughput(until - 10), calm.mean_throughput(until - 10)) for t, calm in runs]
    return (
        label,
        Spread.of(end for end, _ in ends),
        Spread.of(end / calm for end, calm in ends),
        Spread.of(len(t.moves) for t, _ in runs),
        Spread.of(t.last_move_s() for t, _ in runs),
        Spread.of(t.spilled_at_end for t, _ in runs),
    )


def flux_fig12(out: Path, *, quick: bool = False) -> Result:
    """Latency in the same runs."""
    sites, until = _size(quick)
    runs = [measure_fig11(seed, sites=sites, until=until) for seed in seeds(quick=quick)]

    def later(name: str) -> Spread:
        ends = [(getattr(r, name).mean_latency(until - 10), r.calm.mean_latency(until - 10)) for r in runs]
        return Spread.of(end / calm for end, calm in ends)

    rows = tuple(
        (
            label,
            Spread.of(max(getattr(r, name).latency_s) * 1e3 for r in runs),
            Spread.of(getattr(r, name).mean_latency(until - 10) * 1e3 for r in runs),
            later(name),
        )
        for name, label in LABELS
    )
    first = runs[0]
    chart = Chart(
        "t (s)",
        "mean latency (ms)",
        first.calm.seconds,
        {label: [max(v * 1e3, 1e-2) for v in getattr(first, name).latency_s] for name, label in LABELS},
        {"unloaded": first.calm.mean_latency(until - 10) * 1e3},
        log_y=True,
    )
    columns = ("partitioning", "worst second (ms)", "at the end (ms)", "÷ in memory")
    return Result(
        "flux-fig12",
        "memory of one site halved: latency",
        Table(columns, rows),
        (
            # 6.3: "several orders of magnitude". 42 of 128 partitions of one site of 32 take 0.9 s each for a
            # turn: rows wait 19 s on average there, 0.2 s over all, 4,000 × 45 µs. Three orders are several.
            at_least("static stays late: ÷ in memory", later("static"), 1000),
            # "Returns to the in-memory latency", within 3 %.
            at_most("the memory policy returns: ÷ in memory", later("paper"), 1.03),
            at_most("our hybrid policy, too", later("ours"), 1.03),
        ),
        draw(chart, out / "flux-fig12.png"),
    )


def _size(quick: bool) -> tuple[int, float]:
    return (8 if quick else SITES), 60.0


@cache
def measure_fig11(seed: int, *, sites: int = SITES, until: float = 60.0) -> Halved:
    """All runs of figures 11 and 12 under one seed."""
    stage = memory_stage(small_cluster(memory_pressure([SHORT_SITE], start_s=1.0), sites=sites), seed=seed)
    return Halved(
        run(memory_stage(small_cluster(sites=sites), seed=seed), None, until),
        run(stage, None, until),
        run(stage, published_memory(), until),
        run(stage, our_hybrid(), until),
    )


@dataclass(frozen=True, slots=True)
class Degraded:
    """Under one seed, by sites short of memory: throughput and latency ÷ unloaded, partitions on disk."""

    counts: tuple[int, ...]
    static_rate: tuple[float, ...]
    policy_rate: tuple[float, ...]
    static_late: tuple[float, ...]
    policy_late: tuple[float, ...]
    on_disk: tuple[int, ...]
    one_on_disk: tuple[int, ...]
    """Short sites with exactly one partition on disk, under the policy."""
    last_move_s: tuple[float, ...]


AFTERWARDS = {
    "on_disk": "on disk (policy)",
    "one_on_disk": "short sites with one on disk",
    "last_move_s": "last move (s)",
}


def flux_fig13(out: Path, *, quick: bool = False) -> Result:
    """Throughput against the number of sites that lost half of their memory."""
    runs = _degraded(quick)
    counts = runs[0].counts
    static, policy = (
        [Spread.of(getattr(r, name)[i] for r in runs) for i in range(len(counts))]
        for name in ("static_rate", "policy_rate")
    )
    rows: tuple[tuple[Cell, ...], ...] = tuple(
        (n, static[i], policy[i], *(Spread.of(getattr(r, name)[i] for r in runs) for name in AFTERWARDS))
        for i, n in enumerate(counts)
    )
    lines = {"static": [s.median for s in static], "memory policy": [p.median for p in policy]}
    return Result(
        "flux-fig13",
        "throughput by sites short of memory, ÷ unloaded",
        Table(("short sites", "static", "memory policy", *AFTERWARDS.values()), rows),
        _cliff_checks(runs),
        draw(Chart("sites short of memory", "÷ unloaded", counts, lines, {}), out / "flux-fig13.png"),
    )


def _cliff_checks(runs: list[Degraded]) -> tuple[Check, ...]:
    counts = runs[0].counts
    limit = _limit(counts)
    inside = [i for i, n in enumerate(counts) if n < limit]
    after = [i for i, n in enumerate(counts) if n > limit]
    checks = (
        # 6.3: "as soon as a single machine is perturbed, the performance of the entire stage degrades".
        at_most(
            "static drops with the first site",
            Spread.of(max(r.static_rate[1:]) for r in runs),
            ROTATING + GIVE_OR_TAKE,
        ),
        # 6.3: "able to utilize the aggregate main memory", so no disk, and the CPUs limit. Within 3 %.
        at_least(
            "while memory lasts, the policy has what the sites' CPUs allow",
            Spread.of(
                min(r.policy_rate[i] / _left_to_gain(2 * limit, counts[i]) for i in inside) for r in runs
            ),
            1 - GIVE_OR_TAKE,
        ),
        # Once memory is exhausted all sites rotate, and the busiest has the usual 128 partitions at least.
        at_most(
            "beyond the end of memory no site does more than one that rotates",
            Spread.of(max(r.policy_rate[i] for i in after) for r in runs),
            ROTATING + GIVE_OR_TAKE,
        ),
    )
    return checks if limit not in counts else (*checks, *_edge_checks(runs, limit))


def _edge_checks(runs: list[Degraded], limit: int) -> tuple[Check, ...]:
    """Where aggregate memory is just exhausted: 6.3, "the throughput of the operator drops steeply".

    There "each overloaded machine has one partition on disk": 86 partitions, of which 85 fit, and the others,
    with 170, do not rotate. A short site can do a third of the usual rows, but gets only 86/128 of its share
    of them, so the stage has 128/86 · 1/3 = 0.50 of unloaded. One short site earlier it has 0.77, what the
    CPUs allow (`_left_to_gain`). The quotient is 0.64.

    The 15 sites before cost (1 - 0.77)/15 = 0.015 each, this one 0.27, 18 times as much. A cliff is a step of
    another order of magnitude than those before it: 10 times.
    """
    counts = runs[0].counts
    at, before = counts.index(limit), counts.index(limit - 1)
    kept = int(MEMORY_LEFT // LARGE_STATE)
    expected = ROTATING * MEMORY_PARTITIONS / (kept + 1) / _left_to_gain(2 * limit, limit - 1)
    return (
        between(
            "where memory ends, it drops as far as the sites that rotate: ÷ before",
            Spread.of(r.policy_rate[at] / r.policy_rate[before] for r in runs),
            expected - GIVE_OR_TAKE,
            expected + GIVE_OR_TAKE,
        ),
        at_least(
            "steeply: this step ÷ the mean of those before it",
            Spread.of(
                (r.policy_rate[before] - r.policy_rate[at]) / ((1 - r.policy_rate[before]) / counts[before])
                for r in runs
            ),
            10,
        ),
        # 6.3: "when 16 machines are perturbed, … each overloaded machine has one partition on disk".
        between("then so many partitions are on disk", Spread.of(r.on_disk[at] for r in runs), limit, limit),
        between("one at each short site: sites", Spread.of(r.one_on_disk[at] for r in runs), limit, limit),
    )


def flux_fig14(out: Path, *, quick: bool = False) -> Result:
    """Latency against the number of sites that lost half of their memory."""
    runs = _degraded(quick)
    counts = runs[0].counts
    limit = _limit(counts)
    static, policy = (
        [Spread.of(getattr(r, name)[i] for r in runs) for i in range(len(counts))]
        for name in ("static_late", "policy_late")
    )
    rows = tuple((n, static[i], policy[i]) for i, n in enumerate(counts))
    lines = {"static": [s.median for s in static], "memory policy": [p.median for p in policy]}
    inside = [i for i, n in enumerate(counts) if n < limit]
    after = [i for i, n in enumerate(counts) if n > limit]
    checks = [
        # As in figure 12: several orders of magnitude, three at least.
        at_least(
            "static is orders of magnitude later from the first site on",
            Spread.of(min(r.static_late[1:]) for r in runs),
            1000,
        ),
        # In memory means in-memory latency, within 3 %.
        at_most(
            "the policy keeps in-memory latency while memory lasts",
            Spread.of(max(r.policy_late[i] for i in inside) for r in runs),
            1.03,
        ),
        # "Increases exponentially" beyond: at least as many orders as static has with its first site.
        at_least(
            "beyond the end of memory it is orders of magnitude later, too",
            Spread.of(min(r.policy_late[i] for i in after) for r in runs),
            1000,
        ),
    ]
    if limit in counts:
        # One partition per short site, 16 of 4,096, is away for 0.9 s a turn: rows wait half of that, on
        # average over all 1.8 ms or 39 × 45 µs. Half of this rise must be seen.
        rise = Spread.of(r.policy_late[counts.index(limit)] for r in runs)
        checks.insert(2, at_least("where memory ends, latency rises", rise, 20))
    return Result(
        "flux-fig14",
        "latency by sites short of memory, ÷ in memory",
        Table(("short sites", "static", "memory policy"), rows),
        tuple(checks),
        draw(
            Chart("sites short of memory", "÷ in memory", counts, lines, {}, log_y=True),
            out / "flux-fig14.png",
        ),
    )


def _degraded(quick: bool) -> list[Degraded]:
    sites, counts = (8, (0, 1, 6)) if quick else (SITES, COUNTS)
    return [measure_fig13(seed, sites=sites, counts=counts) for seed in seeds(quick=quick)]


@cache
def measure_fig13(seed: int, *, sites: int = SITES, counts: tuple[int, ...] = COUNTS) -> Degraded:
    """All runs of figures 13 and 14 under one seed."""
    static, policy, one_on_disk = [], [], []
    for count in counts:
        short = loaded_sites(count, sites=sites, seed=seed)
        stage = memory_stage(small_cluster(memory_pressure(short), sites=sites), tick_s=0.02, seed=seed)
        static.append(run(stage, None, _until(count, adaptive=False)))
        policy.append(run(stage, published_memory(), _until(count, adaptive=True)))
        one_on_disk.append(sum(policy[-1].spilled_by_site[site] == 1 for site in short))
    rate, late = _steady_rate(static[0]), _steady_latency(static[0])
    return Degraded(
        counts,
        tuple(_steady_rate(t) / rate for t in static),
        tuple(_steady_rate(t) / rate for t in policy),
        tuple(_steady_latency(t) / late for t in static),
        tuple(_steady_latency(t) / late for t in policy),
        tuple(t.spilled_at_end for t in policy),
        tuple(one_on_disk),
        tuple(t.last_move_s() for t in policy),
    )


def _steady_rate(trace: Trace) -> float:
    return trace.mean_throughput(trace.seconds[-1] - STEADY_S)


def _steady_latency(trace: Trace) -> float:
    return trace.mean_latency(trace.seconds[-1] - STEADY_S)


def _limit(counts: tuple[int, ...]) -> int:
    """Half of the sites: 768 of 1,024 MB are in use everywhere, and each loses 512."""
    return 16 if max(counts) > 8 else 4


def _left_to_gain(sites: int, short: int) -> float:
    """Throughput, against unloaded, when the short sites keep what fits and the others share the rest evenly.

    Memory is not all: sites that take partitions over have more to do, and the stage is as fast as they are.
    """
    kept = int(MEMORY_LEFT // LARGE_STATE)
    return MEMORY_PARTITIONS * (sites - short) / (MEMORY_PARTITIONS * sites - kept * short)
