"""COSMOS, figure 6.10: sites that get other work from 15 s on."""

from __future__ import annotations

from pathlib import Path

from anabranch.reproduce.cosmos.placement_setups import balanced, foreign, seeds, some_sites, traced
from anabranch.reproduce.report.picture import Chart, draw
from anabranch.reproduce.report.result import Result, Spread, Table, at_least, at_most
from anabranch.sim.placement.placement_run import STATIC, PlacementPolicy

SHARES = (0.0, 0.125, 0.25, 0.375, 0.5)
QUICK_SHARES = (0.0, 0.25)
LOADED_S, UNTIL_S = 15.0, 60.0


def cosmos_fig6_10(out: Path, *, quick: bool = False) -> Result:
    """PR_max, relative to that without foreign load, by the share of sites that have some."""
    shares = QUICK_SHARES if quick else SHARES
    policies = {"static": STATIC, "dynamic": PlacementPolicy()}
    ratio = {
        kind: [
            Spread.of(_ratio(seed, share, policy, quick=quick) for seed in seeds(quick=quick))
            for share in shares
        ]
        for kind, policy in policies.items()
    }
    grown = {kind: [r.median / values[0].median for r in values] for kind, values in ratio.items()}
    rows = tuple(
        (f"{share:.0%}", ratio["static"][i], ratio["dynamic"][i], grown["static"][i], grown["dynamic"][i])
        for i, share in enumerate(shares)
    )
    some = shares.index(0.25)
    checks = (
        at_least("a quarter of the sites loaded: static grows by", grown["static"][some], 5),
        at_most("dynamic by", grown["dynamic"][some], 5),
        at_least("static ÷ dynamic", grown["static"][some] / grown["dynamic"][some], 3),
    )
    chart = Chart("share of sites with foreign load", "PR_max, relative", shares, grown, {}, log_y=True)
    columns = ("sites loaded", "PR_max static", "PR_max dynamic", "static, relative", "dynamic, relative")
    figure = draw(chart, out / "cosmos-fig6-10.png")
    return Result("cosmos-fig6-10", "foreign load", Table(columns, rows), checks, figure)


def _ratio(seed: int, share: float, policy: PlacementPolicy, *, quick: bool) -> float:
    load = balanced(seed, quick=quick)
    change = foreign(some_sites(load, round(share * load.sites)), LOADED_S)
    return traced(load, policy, UNTIL_S, change).largest_ratio()
