"""COSMOS, figures 6.8 and 6.9: rates of 1 site, and of 4, raised from 10 s to 40 s."""

from __future__ import annotations

from pathlib import Path

from anabranch.reproduce.cosmos.placement_setups import balanced, raised, seeds, some_sites, traced
from anabranch.reproduce.report.picture import Chart, draw
from anabranch.reproduce.report.result import Cell, Result, Spread, Table, at_least, at_most, between
from anabranch.sim.placement.placement_run import STATIC, WINDOW_S, PlacementPolicy, PlacementTrace

RAISED_S, FALLEN_S, UNTIL_S = 10.0, 40.0, 60.0
AT_ONCE_S = 6.0
"""Until the migrations are over."""
SPANS = {
    "before": (5.0, 10.0),
    "first 2 s": (10.0, 12.0),
    "raised": (16.0, 40.0),
    "fallen": (46.0, 60.0),
}


def cosmos_fig6_8(out: Path, *, quick: bool = False) -> Result:
    """Rates of one site raised."""
    return _figure("cosmos-fig6-8", 32, out, quick=quick)


def cosmos_fig6_9(out: Path, *, quick: bool = False) -> Result:
    """Rates of an eighth of the sites raised."""
    return _figure("cosmos-fig6-9", 8, out, quick=quick)


def _figure(name: str, one_of: int, out: Path, *, quick: bool) -> Result:
    pairs = []
    for seed in seeds(quick=quick):
        load = balanced(seed, quick=quick)
        change = raised(some_sites(load, max(load.sites // one_of, 1)), RAISED_S, FALLEN_S)
        policies = {"static": STATIC, "dynamic": PlacementPolicy()}
        pairs.append({kind: traced(load, policy, UNTIL_S, change) for kind, policy in policies.items()})
    ratio = {
        kind: {span: Spread.of(p[kind].largest_ratio(*ends) for p in pairs) for span, ends in SPANS.items()}
        for kind in ("static", "dynamic")
    }
    rows: tuple[tuple[Cell, ...], ...] = tuple((kind, *ratio[kind].values()) for kind in ratio)
    static, dynamic = ({s: v.median for s, v in ratio[kind].items()} for kind in ("static", "dynamic"))
    early = Spread.of(early_share(p["dynamic"]) for p in pairs)
    checks = (
        between("before, both are alike: dynamic ÷ static", dynamic["before"] / static["before"], 0.8, 1.2),
        at_least("static suffers throughout: PR_max raised ÷ before", static["raised"] / static["before"], 3),
        at_most("dynamic for a moment: PR_max raised ÷ before", dynamic["raised"] / dynamic["before"], 2),
        at_least("dynamic, the first 2 s ÷ later", dynamic["first 2 s"] / dynamic["raised"], 1.2),
        at_most("static recovers when the rates fall", static["fallen"] / static["before"], 1.2),
        at_least("most migrations are within 6 s of a change", early, 0.75),
    )  # fmt: skip
    chart = Chart(
        "seconds",
        "PR_max",
        [float(s) for s in range(int(UNTIL_S))],
        {kind: pairs[0][kind].ratio_by_second() for kind in ("static", "dynamic")},
        {},
        log_y=True,
    )
    columns = ("placement", *(f"PR_max {span}" for span in SPANS))
    return Result(
        name, "rates raised and lowered", Table(columns, rows), checks, draw(chart, out / f"{name}.png")
    )


def early_share(trace: PlacementTrace) -> float:
    """Of the migrations after the first change, those within a few seconds of one of both."""
    moved = {window * WINDOW_S: count for window, count in enumerate(trace.migrations)}
    late = sum(count for at, count in moved.items() if at >= RAISED_S)
    early = sum(
        count for at, count in moved.items() if any(s <= at < s + AT_ONCE_S for s in (RAISED_S, FALLEN_S))
    )
    return early / max(late, 1)
