"""diffusion-fig11 to -fig16: aligned and coordinated routing on simulated sites, and the choice between them.

Rates are such that joining alone would keep all sites busy: what routing takes is lost. Segments are 4
seconds long: in this model a site may be behind for as long as it likes, so that longer segments cost
nothing. A selectivity σ is the number of rows in a window of 30 seconds that a row matches.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import numpy as np

from anabranch.adapt.routing.overhead import StreamRate, best_master, copies_in_turns
from anabranch.adapt.routing.router_costs import coordinated_overhead
from anabranch.adapt.routing.routing_choice import CHEAPER
from anabranch.reproduce.report.picture import Chart, draw
from anabranch.reproduce.report.result import Check, Result, Table, at_least
from anabranch.sim.diffusion_run import (
    MEAN_MIPS,
    PROBE_MS,
    USUAL_WINDOW_S,
    AlignedSites,
    CoordinatedSites,
    Outcome,
    Rate,
    RunSecond,
    Setup,
    coordinated_table,
    one_join_per_site,
    simulate,
)

SITES = 30
SIGMA = 0.1
BURST_S = 10
"""Seconds that a stream has its high rate, and then its low one."""


@dataclass(frozen=True, slots=True)
class Cell:
    """What one point of a figure gives."""

    aligned: Outcome
    coordinated: Outcome
    chosen: str

    @property
    def better(self) -> str:
        return "aligned" if self.aligned.throughput >= self.coordinated.throughput else "coordinated"

    @property
    def regret(self) -> float:
        """Throughput of the chosen router ÷ that of the better one."""
        found = {"aligned": self.aligned.throughput, "coordinated": self.coordinated.throughput}
        return found[self.chosen] / max(found.values())


def setup_of(
    streams: int,
    window_s: int,
    sigma: float,
    *,
    sites: int = SITES,
    burst: float | None = None,
    seed: int = 1,
) -> Setup:
    """A join that would just keep all sites busy, on sites of 1000 to 5000 MIPS."""
    mips = tuple(np.random.default_rng(seed).uniform(1000, 5000, sites).tolist())
    matches = sigma * window_s / USUAL_WINDOW_S
    row_ms = sum(matches**hop for hop in range(streams - 1)) * PROBE_MS * window_s / USUAL_WINDOW_S
    rate = sum(mips) / MEAN_MIPS * 1000.0 / (streams * row_ms)
    rates = tuple(_rate(rate, burst, number) for number in range(streams))
    return Setup(rates, window_s, sigma / (rate * USUAL_WINDOW_S), mips, seed=seed)


def _rate(rate: float, burst: float | None, number: int) -> Rate:
    if burst is None:
        return lambda _: rate
    return lambda s: rate * (1 + burst if (s + 7 * number) // BURST_S % 2 else 1 - burst)


def choice(setup: Setup) -> str:
    """The router that the engine's models choose before it runs."""
    streams = {a: StreamRate(rate, float(setup.window_s)) for a, rate in setup.mean_rates().items()}
    sites = len(setup.mips)
    aligned = copies_in_turns(streams, best_master(streams), setup.segment_s, range(sites))
    coordinated = coordinated_overhead(coordinated_table(setup), sites)
    return "coordinated" if aligned > CHEAPER * coordinated else "aligned"


def _cell(setup: Setup, *, quick: bool) -> Cell:
    aligned = simulate(replace(setup, seconds=240 if quick else 480), AlignedSites(setup).second)
    short = replace(setup, seconds=40 if quick else 120)
    coordinated = simulate(short, CoordinatedSites(short).second)
    return Cell(aligned, coordinated, choice(setup))


def _figure(
    name: str,
    out: Path,
    *,
    title: str,
    axis: str,
    points: Sequence[float],
    setup: Callable[[float], Setup],
    winners: Callable[[float], str | None],
    quick: bool,
) -> Result:
    """Both routers at some points, and the winner that the paper shows at each."""
    cells = {point: _cell(setup(point), quick=quick) for point in points}
    checks = [
        Check(
            f"{wanted} routing is ahead at {axis} {point:g}",
            cell.better == wanted,
            f"{cell.aligned.throughput:.3f} aligned, {cell.coordinated.throughput:.3f} coordinated",
        )
        for point, cell in cells.items()
        if (wanted := winners(point)) is not None
    ]
    regret = min(cell.regret for cell in cells.values())
    checks.append(at_least("throughput of the router chosen before the run ÷ the better one", regret, 0.95))
    rows = tuple(
        (p, c.aligned.throughput, c.coordinated.throughput, c.aligned.copied, c.coordinated.copied, c.chosen)
        for p, c in cells.items()
    )
    heads = (axis, "aligned", "coordinated", "copies/s aligned", "copies/s coordinated", "chosen")
    lines = {
        "aligned": [cell.aligned.throughput for cell in cells.values()],
        "coordinated": [cell.coordinated.throughput for cell in cells.values()],
    }
    chart = Chart(axis, "share of the results that is found", list(points), lines, {})
    return Result(name, title, Table(heads, rows), tuple(checks), draw(chart, out / f"{name}.png"))


def diffusion_fig13(out: Path, *, quick: bool = False) -> Result:
    """Number of streams, W = 20 s: aligned routing for 2 and 3, coordinated routing for more."""
    return _figure(
        "diffusion-fig13",
        out,
        title=f"number of streams, W = 20 s, {SITES} sites, σ = {SIGMA}",
        axis="streams",
        points=(2, 3, 5) if quick else (2, 3, 4, 5, 6),
        setup=lambda n: setup_of(int(n), 20, SIGMA),
        winners=lambda n: "aligned" if n <= 3 else "coordinated",
        quick=quick,
    )


def diffusion_fig14(out: Path, *, quick: bool = False) -> Result:
    """Window, three streams: aligned routing for small ones, coordinated routing for large ones."""
    return _figure(
        "diffusion-fig14",
        out,
        title=f"window, three streams, {SITES} sites, σ = {SIGMA}",
        axis="window (s)",
        points=(10, 30, 50) if quick else (10, 20, 30, 40, 50),
        setup=lambda w: setup_of(3, int(w), SIGMA),
        winners=lambda w: "aligned" if w <= 20 else "coordinated",
        quick=quick,
    )


def diffusion_fig15(out: Path, *, quick: bool = False) -> Result:
    """Selectivity, W = 30 s: coordinated routing where few rows match, aligned routing where many do."""
    return _figure(
        "diffusion-fig15",
        out,
        title=f"selectivity, three streams, W = 30 s, {SITES} sites",
        axis="σ",
        points=(0.1, 0.5, 1.0) if quick else (0.1, 0.2, 0.4, 0.6, 0.8, 1.0),
        setup=lambda sigma: setup_of(3, 30, sigma),
        winners=lambda sigma: "coordinated" if sigma <= 0.1 else "aligned" if sigma >= 0.5 else None,
        quick=quick,
    )


def diffusion_fig16(out: Path, *, quick: bool = False) -> Result:
    """Bursts, W = 30 s: coordinated routing is ahead, and further the burstier streams are."""
    return _figure(
        "diffusion-fig16",
        out,
        title=f"burstiness, three streams, W = 30 s, {SITES} sites, σ = {SIGMA}",
        axis="burstiness",
        points=(0.0, 1.0) if quick else (0.0, 0.25, 0.5, 0.75, 1.0),
        setup=lambda burst: setup_of(3, 30, SIGMA, burst=burst),
        winners=lambda _: "coordinated",
        quick=quick,
    )


def diffusion_fig11(out: Path, *, quick: bool = False) -> Result:
    """Throughput against the number of sites, four streams, W = 30 s."""
    return _scaling("diffusion-fig11", out, quick=quick, network=False)


def diffusion_fig12(out: Path, *, quick: bool = False) -> Result:
    """Rows on the network against the number of sites."""
    return _scaling("diffusion-fig12", out, quick=quick, network=True)


def _scaling(name: str, out: Path, *, quick: bool, network: bool) -> Result:
    counts = (6, 12, 24) if quick else (6, 12, 24, 36, 48)
    offered = setup_of(4, 30, SIGMA, sites=counts[-1])
    found: dict[str, list[Outcome]] = {}
    for sites in counts:
        setup = replace(offered, mips=offered.mips[:sites], seconds=240)
        short = replace(setup, seconds=30)
        kinds: dict[str, tuple[Setup, RunSecond]] = {
            "aligned": (setup, AlignedSites(setup).second),
            "aligned, unoptimised": (setup, AlignedSites(setup, optimised=False).second),
            "coordinated": (short, CoordinatedSites(short).second),
            "coordinated, unoptimised": (short, CoordinatedSites(short, at_random=True).second),
            "a join per site": (short, partial(one_join_per_site, short)),
        }
        for label, (its, second) in kinds.items():
            found.setdefault(label, []).append(simulate(its, second))
    values = {
        label: [o.sent / 1000 if network else o.throughput for o in outcomes]
        for label, outcomes in found.items()
        if not network or label != "a join per site"
    }
    last = {label: its[-1] for label, its in values.items()}
    pairs = [(router, f"{router}, unoptimised") for router in ("aligned", "coordinated")]
    if network:
        checks = [at_least(f"rows sent: {b} ÷ {a}", last[b] / last[a], 1.0) for a, b in pairs]
    else:
        checks = [at_least(f"throughput: {a} ÷ {b}", last[a] / last[b], 1.0) for a, b in pairs]
        checks += [
            at_least(f"throughput: {a} ÷ a join per site", last[a] / last["a join per site"], 2.0)
            for a, _ in pairs
        ]
    what = "thousand rows sent per second" if network else "share of the results that is found"
    rows = tuple((sites, *(its[i] for its in values.values())) for i, sites in enumerate(counts))
    chart = Chart("sites", what, list(counts), values, {})
    return Result(
        name,
        f"four streams, W = 30 s, σ = {SIGMA}, as many rows as {counts[-1]} sites could join: {what}",
        Table(("sites", *values), rows),
        tuple(checks),
        draw(chart, out / f"{name}.png"),
    )
