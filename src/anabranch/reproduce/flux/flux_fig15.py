"""Flux, figure 15: processing load and memory pressure together.

Under heavy pressure every site rotates and has a third of its time for rows. Evening out what is on disk, 43
and 1 partitions to 22 and 22, gives the sites with more memory 149 partitions instead of 128, so they have a
sixth more to do; and it takes input off the disks of the short sites, where writing it costs a seek per run.
The first costs throughput, the second brings some. The paper has the two cancel; which wins depends on the
length of a run, which is a page here (`Machine.run_bytes`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from anabranch.adapt.balance.controller import Controller
from anabranch.reproduce.flux.flux_setups import (
    SITES,
    loaded_sites,
    memory_pressure,
    memory_stage,
    our_hybrid,
    published_hybrid,
    published_load,
    published_memory,
    run,
    seeds,
    small_cluster,
)
from anabranch.reproduce.report.picture import Chart, draw
from anabranch.reproduce.report.result import Cell, Check, Result, Spread, Table, at_least, at_most
from anabranch.sim.cluster import MB, Cluster
from anabranch.sim.trace import Trace

POLICIES: dict[str, Callable[[], Controller]] = {
    "load": published_load,
    "memory": published_memory,
    "hybrid": published_hybrid,
    "our hybrid": our_hybrid,
}


RUNS_BYTES = (4_096, 65_536)
"""Other lengths of a run: half a page of PostgreSQL, and eight of them."""

STEADY_OVER_S = 5
"""Steady state is a level: the paper has the mean "once partition movement had subsided" (6.4). Here both
policies move a few partitions to the end and single seconds scatter by 2 %, so within 40 s one of them is
below 97 % by chance. The mean of 5 s scatters by 0.9 %, a third of the 3 % that count as arrived."""


@dataclass(frozen=True, slots=True)
class Mixed:
    """The runs under one seed, by policy; `by_run`: rows per second and latency, heavy, by run length."""

    medium: dict[str, Trace]
    heavy: dict[str, Trace]
    by_run: dict[int, dict[str, tuple[float, float]]]


def flux_fig15(out: Path, *, quick: bool = False) -> Result:
    """Medium pressure on a quarter of the sites; heavy pressure on all of them."""
    sites, until = (8, 80.0) if quick else (SITES, 160.0)
    runs = [measure_fig15(seed, sites=sites, until=until) for seed in seeds(quick=quick)]
    last = until - 20
    first = runs[0].medium
    chart = Chart(
        "t (s)",
        "rows/s, medium pressure",
        first["load"].seconds,
        {k: t.throughput for k, t in first.items()},
        {},
    )
    columns = (
        "policy",
        "medium: rows/s",
        "medium: 97 % first reached (s)",
        "medium: steady at (s)",
        "heavy: rows/s",
        "heavy: latency (s)",
        "heavy: moves",
    )
    return Result(
        "flux-fig15",
        "mixed pressure, last 20 s",
        Table(columns, _rows(runs, last)),
        _checks(runs, last),
        draw(chart, out / "flux-fig15.png"),
    )


def _rows(runs: list[Mixed], last: float) -> tuple[tuple[Cell, ...], ...]:
    policies = [
        (
            label,
            Spread.of(r.medium[label].mean_throughput(last) for r in runs),
            Spread.of(r.medium[label].reaches(0.97) for r in runs),
            Spread.of(_steady_s(r.medium[label]) for r in runs),
            Spread.of(r.heavy[label].mean_throughput(last) for r in runs),
            Spread.of(r.heavy[label].mean_latency(last) for r in runs),
            Spread.of(len(r.heavy[label].moves) for r in runs),
        )
        for label in POLICIES
    ]
    variants = [
        (
            f"{label}, input written in runs of {size // 1024} KB",
            "",
            "",
            "",
            Spread.of(r.by_run[size][label][0] for r in runs),
            Spread.of(r.by_run[size][label][1] for r in runs),
            "",
        )
        for size in runs[0].by_run
        for label in ("load", "hybrid")
    ]
    return (*policies, *variants)


def _steady_s(trace: Trace) -> float:
    return trace.steady_from(0.97, over=STEADY_OVER_S)


def _medium(sites: int, seed: int) -> Cluster:
    loaded = loaded_sites(sites // 4, sites=sites, seed=seed)
    return small_cluster(memory_pressure(loaded, busy=True), sites=sites)


def _heavy(sites: int, seed: int) -> Cluster:
    most = loaded_sites(sites // 2, sites=sites, seed=seed)
    rest = [s for s in range(sites) if s not in most]
    # 262 MB: just enough that a single partition must go to disk.
    pressure = (
        *memory_pressure(most, busy=True),
        *memory_pressure(rest, busy=True, memory_bytes=262 * MB),
    )
    return small_cluster(pressure, sites=sites)


def measure_fig15(seed: int, *, sites: int = SITES, until: float = 160.0) -> Mixed:
    """All runs of the figure under one seed."""
    medium = memory_stage(_medium(sites, seed), tick_s=0.02, seed=seed)
    heavy = memory_stage(_heavy(sites, seed), tick_s=0.02, seed=seed)
    by_run: dict[int, dict[str, tuple[float, float]]] = {}
    for size in RUNS_BYTES:
        machine = replace(heavy.cluster.machine, run_bytes=size)
        stage = replace(heavy, cluster=replace(heavy.cluster, machine=machine))
        traces = {label: run(stage, POLICIES[label](), until) for label in ("load", "hybrid")}
        by_run[size] = {
            k: (t.mean_throughput(until - 20), t.mean_latency(until - 20)) for k, t in traces.items()
        }
    return Mixed(
        {label: run(medium, policy(), until) for label, policy in POLICIES.items()},
        {label: run(heavy, policy(), until) for label, policy in POLICIES.items()},
        by_run,
    )


def _checks(runs: list[Mixed], last: float) -> tuple[Check, ...]:
    def rate(one: str, other: str) -> Spread:
        pairs = [(r.medium[one], r.medium[other]) for r in runs]
        return Spread.of(a.mean_throughput(last) / b.mean_throughput(last) for a, b in pairs)

    def stressed(one: str, other: str) -> Spread:
        pairs = [(r.heavy[one], r.heavy[other]) for r in runs]
        return Spread.of(a.mean_throughput(last) / b.mean_throughput(last) for a, b in pairs)

    late = Spread.of(r.heavy["hybrid"].mean_latency(last) / r.heavy["load"].mean_latency(last) for r in runs)
    sooner = Spread.of(_steady_s(r.medium["hybrid"]) - _steady_s(r.medium["load"]) for r in runs)
    return (
        # the claim: "hybrid ≥ both others"; equal means within the 3 % that it allows in figure 7.
        at_least("medium: hybrid ÷ load policy", rate("hybrid", "load"), 0.97),
        # 6.4: the memory policy "performs worse". It stops with 85 partitions at sites that have 0.43 of
        # their speed: 0.43 · 128/85 = 0.65 of unloaded. The hybrid goes on until no pair differs by th_imb =
        # 1.2: at least 0.8575/1.2 = 0.715. The quotient is 1.1.
        at_least("medium: hybrid ÷ memory policy", rate("hybrid", "memory"), 1.1),
        # 6.4: "reaches steady state faster than the load-balancing policy".
        at_most("medium: hybrid steady later than load policy by, seconds", sooner, 0.0),
        # 6.4: "the throughput is unaffected by either of the policies", and the claim: ≥.
        at_least("heavy: hybrid ÷ load policy", stressed("hybrid", "load"), 0.97),
        at_least("heavy: hybrid ÷ memory policy", stressed("hybrid", "memory"), 0.97),
        # 6.4: "reduces the average latency by a factor of two". The wait grows with the square of what is on
        # disk: (22² + 22²)/(43² + 1²) = 0.52. "A factor of two", give or take a tenth of the whole: 0.6.
        at_most("heavy: latency, hybrid ÷ load policy", late, 0.6),
        # Ours, not the paper's.
        at_least("medium: our hybrid ÷ the published one", rate("our hybrid", "hybrid"), 0.97),
    )
