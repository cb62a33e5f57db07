"""COSMOS, figure 6.5: how many partners a site needs."""

from __future__ import annotations

from pathlib import Path

from anabranch.reproduce.cosmos.placement_setups import seeds, skewed, traced
from anabranch.reproduce.report.picture import Chart, draw
from anabranch.reproduce.report.result import Result, Spread, Table, at_least, at_most
from anabranch.sim.placement.placement_run import PlacementPolicy, PlacementTrace

PARTNERS = (0, 1, 2, 4, 6, 8, 10)
QUICK_PARTNERS = (0, 4, 8)
ENOUGH = 4
UNTIL_S, SETTLED_S = 40.0, 30.0


def cosmos_fig6_5(out: Path, *, quick: bool = False) -> Result:
    """Zipf 0.95: load, PR_max and time to converge by the number of partners."""
    partners = QUICK_PARTNERS if quick else PARTNERS
    runs = {n: [_trace(seed, n, quick=quick) for seed in seeds(quick=quick)] for n in partners}
    deviation = {
        n: Spread.of(t.between(t.deviation, SETTLED_S) for t in traces) for n, traces in runs.items()
    }
    ratio = {n: Spread.of(t.largest_ratio(SETTLED_S) for t in traces) for n, traces in runs.items()}
    settled = {n: Spread.of(map(time_to_converge, traces)) for n, traces in runs.items() if n}
    rows = tuple((n, deviation[n], ratio[n], settled.get(n, "–")) for n in partners)
    most, start = partners[-1], deviation[0].median
    checks = (
        at_most("with 4 partners, what is left of the imbalance", deviation[ENOUGH].median / start, 0.2),
        at_most(
            "what more partners take away besides, of the imbalance at the start",
            (deviation[ENOUGH].median - deviation[most].median) / start,
            0.1,
        ),
        at_most("PR_max with 4 partners ÷ with the most", ratio[ENOUGH].median / ratio[most].median, 1.5),
        at_least("PR_max without balancing ÷ with 4", ratio[0].median / ratio[ENOUGH].median, 10),
        at_most(
            "time to converge: slowest ÷ quickest from 4 partners on",
            max(settled[n].median for n in partners if n >= ENOUGH)
            / min(settled[n].median for n in partners if n >= ENOUGH),
            2.0,
        ),
    )
    chart = Chart(
        "max_1", "standard deviation of ρ", partners, {"load": [deviation[n].median for n in partners]}, {}
    )
    columns = ("partners asked for (max_1)", "standard deviation of ρ", "PR_max", "seconds to converge")
    figure = draw(chart, out / "cosmos-fig6-5.png")
    return Result("cosmos-fig6-5", "partners", Table(columns, rows), checks, figure)


def time_to_converge(trace: PlacementTrace) -> float:
    """Until nine tenths of the imbalance that goes are gone."""
    first, last = trace.deviation[0], trace.between(trace.deviation, SETTLED_S)
    wanted = last + 0.1 * (first - last)
    return next(t for t, d in zip(trace.time, trace.deviation, strict=True) if d <= wanted)


def _trace(seed: int, partners: int, *, quick: bool) -> PlacementTrace:
    return traced(skewed(seed, quick=quick), PlacementPolicy(partners=partners), UNTIL_S)
