"""Flux, figure 3: short imbalances, and what a shared buffer does about them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

from anabranch.reproduce.flux.flux_setups import SITES, ideal_share, run, seeds, small_cluster
from anabranch.reproduce.report.picture import Chart, draw
from anabranch.reproduce.report.result import Check, Result, Spread, Table, at_least, between
from anabranch.sim.cluster import rotating_process
from anabranch.sim.pipeline import Stage
from anabranch.sim.workload import uniform

BUFFERS = (0, 64, 128, 256, 512, 1024, 2048, 4096)


@dataclass(frozen=True, slots=True)
class Rotating:
    """Rows per second under one seed: unloaded, and by buffer size with the space shared and split."""

    calm: float
    flux: tuple[float, ...]
    plain: tuple[float, ...]


def flux_fig3(out: Path, *, quick: bool = False) -> Result:
    """A load that visits one site after the other, 0.5 s each; the same space shared, or split."""
    sites, buffers = (8, (0, 256, 1024, 8192)) if quick else (SITES, BUFFERS)
    runs = [measure_fig3(seed, sites=sites, buffers=buffers) for seed in seeds(quick=quick)]
    flux = [Spread.of(r.flux[i] for r in runs) for i in range(len(buffers))]
    plain = [Spread.of(r.plain[i] for r in runs) for i in range(len(buffers))]
    rows = tuple(
        (
            b,
            plain[i],
            flux[i],
            Spread.of(r.plain[i] / r.calm for r in runs),
            Spread.of(r.flux[i] / r.calm for r in runs),
        )
        for i, b in enumerate(buffers)
    )
    chart = Chart(
        "buffer per producer (rows)",
        "rows/s",
        buffers,
        {"Flux": [f.median for f in flux], "Exchange of equal space": [p.median for p in plain]},
        {"unloaded": Spread.of(r.calm for r in runs).median},
    )
    return Result(
        "flux-fig3",
        "short imbalances",
        Table(
            ("buffer rows", "Exchange rows/s", "Flux rows/s", "Exchange ÷ unloaded", "Flux ÷ unloaded"), rows
        ),
        _checks(sites, buffers, runs),
        draw(chart, out / "flux-fig3.png"),
    )


def measure_fig3(seed: int, *, sites: int = SITES, buffers: tuple[int, ...] = BUFFERS) -> Rotating:
    """All runs of the figure under one seed."""
    until = sites * 0.5
    cluster = small_cluster(rotating_process(sites, each_s=0.5, until_s=until), sites=sites)
    stage = Stage(cluster, uniform(8 * sites), warm=True, seed=seed)
    return Rotating(
        run(replace(stage, cluster=small_cluster(sites=sites)), None, until).mean_throughput(),
        tuple(run(replace(stage, buffer_rows=b), None, until).mean_throughput() for b in buffers),
        tuple(
            run(replace(stage, buffer_rows=b, in_connections=True), None, until).mean_throughput()
            for b in buffers
        ),
    )


def _checks(sites: int, buffers: tuple[int, ...], runs: list[Rotating]) -> tuple[Check, ...]:
    lead = [[f / p for f, p in zip(r.flux, r.plain, strict=True)][1:] for r in runs]
    return (
        # "About half" (the claim, section 4), give or take a tenth of the whole; the slow site alone would be
        # 0.43.
        between(
            "without a buffer about half of the unloaded throughput",
            Spread.of(r.flux[0] / r.calm for r in runs),
            0.4,
            0.6,
        ),
        # "Flux beats Exchange of equal space": at every size there is, by anything at all …
        at_least("with a buffer Flux beats Exchange at every size", Spread.of(min(x) for x in lead), 1.0),
        # … and "quickly": by more than the 3 % that the claim counts as the same.
        at_least("and by more than 3 % at some size", Spread.of(max(x) for x in lead), 1.03),
        # "Approaches unloaded". One site of all is always loaded, which leaves ideal_share of unloaded (0.982
        # of 32); arrived means within 3 % of that, as in the claim for figure 7.
        at_least(
            f"with {buffers[-1]} rows Flux is within 3 % of an even spread of the load",
            Spread.of(r.flux[-1] / (r.calm * ideal_share(sites, 1)) for r in runs),
            0.97,
        ),
    )
