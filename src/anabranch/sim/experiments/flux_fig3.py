"""Flux, figure 3: short imbalances, and what a shared buffer does about them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from anabranch.sim.cluster import rotating_process
from anabranch.sim.experiments.flux_setups import SITES, ideal_share, run, small_cluster
from anabranch.sim.experiments.picture import Chart, draw
from anabranch.sim.experiments.result import Check, Result, Table, at_least, between
from anabranch.sim.pipeline import Stage
from anabranch.sim.workload import uniform

BUFFERS = (0, 64, 128, 256, 512, 1024, 2048, 4096)


def flux_fig3(out: Path, *, quick: bool = False) -> Result:
    """A load that visits one site after the other, 0.5 s each; the same space shared, or split."""
    sites, buffers = (8, (0, 256, 1024, 8192)) if quick else (SITES, BUFFERS)
    until = sites * 0.5
    cluster = small_cluster(rotating_process(sites, each_s=0.5, until_s=until), sites=sites)
    stage = Stage(cluster, uniform(8 * sites), warm=True)
    calm = run(replace(stage, cluster=small_cluster(sites=sites)), None, until).mean_throughput()
    flux = [run(replace(stage, buffer_rows=b), None, until).mean_throughput() for b in buffers]
    plain = [
        run(replace(stage, buffer_rows=b, in_connections=True), None, until).mean_throughput()
        for b in buffers
    ]
    rows = tuple((b, p, f, p / calm, f / calm) for b, p, f in zip(buffers, plain, flux, strict=True))
    chart = Chart(
        "buffer per producer (rows)",
        "rows/s",
        buffers,
        {"Flux": flux, "Exchange of equal space": plain},
        {"unloaded": calm},
    )
    return Result(
        "flux-fig3",
        "short imbalances",
        Table(
            ("buffer rows", "Exchange rows/s", "Flux rows/s", "Exchange ÷ unloaded", "Flux ÷ unloaded"), rows
        ),
        _checks(sites, buffers, plain, flux, calm),
        draw(chart, out / "flux-fig3.png"),
    )


def _checks(
    sites: int, buffers: tuple[int, ...], plain: list[float], flux: list[float], calm: float
) -> tuple[Check, ...]:
    lead = [f / p for f, p in zip(flux, plain, strict=True)]
    return (
        between("without a buffer about half of the unloaded throughput", flux[0] / calm, 0.4, 0.65),
        at_least("with a buffer Flux is never behind Exchange of equal space", min(lead[1:]), 0.99),
        at_least("and clearly ahead for some size", max(lead[1:]), 1.1),
        at_least(
            f"with {buffers[-1]} rows Flux approaches what an even spread of the load would leave",
            flux[-1] / (calm * ideal_share(sites, 1)),
            0.96,
        ),
    )
