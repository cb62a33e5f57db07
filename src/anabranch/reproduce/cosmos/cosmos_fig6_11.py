"""COSMOS, figure 6.11: the low-pass filter. Low α moves for nothing, high α moves late."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from anabranch.reproduce.cosmos.placement_setups import balanced, foreign, seeds, some_sites, traced
from anabranch.reproduce.report.picture import Chart, draw
from anabranch.reproduce.report.result import Result, Spread, Table, at_least, at_most
from anabranch.sim.placement.placement_run import WINDOW_S, PlacementPolicy, PlacementTrace

ALPHAS = (0.3, 0.9, 0.98)
CALM_S = 5.0
LOADED_S, UNTIL_S = 15.0, 40.0


def cosmos_fig6_11(out: Path, *, quick: bool = False) -> Result:
    """Without any change, and with a quarter of the sites loaded at 15 s."""
    runs = {alpha: [_runs(seed, alpha, quick=quick) for seed in seeds(quick=quick)] for alpha in ALPHAS}
    swing = {a: Spread.of(fluctuation(c) for c, _ in pairs) for a, pairs in runs.items()}
    calm = round(CALM_S / WINDOW_S)
    moved = {a: Spread.of(sum(c.migrations[calm:]) for c, _ in p) for a, p in runs.items()}
    delay = {a: Spread.of(reaction_s(loaded) for _, loaded in pairs) for a, pairs in runs.items()}
    peak = {a: Spread.of(t.largest_ratio(LOADED_S, LOADED_S + 5) for _, t in p) for a, p in runs.items()}
    rows = tuple((a, swing[a], moved[a], delay[a], peak[a]) for a in ALPHAS)
    low, usual, high = ALPHAS
    checks = (
        at_least("PR_max fluctuates: α 0.3 ÷ 0.9", swing[low].median / swing[usual].median, 3),
        at_least("fragments moved for nothing, α 0.3", moved[low], 20),
        at_most("α 0.9", moved[usual], 20),
        at_least("reaction, α 0.98 ÷ 0.9", delay[high].median / delay[usual].median, 1.5),
        at_least("and α 0.9 ÷ 0.3", delay[usual].median / delay[low].median, 1.2),
        at_least("PR_max of the first 5 s, α 0.98 ÷ 0.3", peak[high].median / peak[low].median, 1.2),
    )
    chart = Chart(
        "seconds",
        "PR_max",
        [float(s) for s in range(int(UNTIL_S))],
        {f"α = {a}": runs[a][0][1].ratio_by_second() for a in ALPHAS},
        {},
        log_y=True,
    )
    columns = (
        "α",
        "fluctuation of PR_max, no change",
        "fragments moved",
        "seconds to react",
        "PR_max 15–20 s",
    )
    figure = draw(chart, out / "cosmos-fig6-11.png")
    return Result("cosmos-fig6-11", "the low-pass filter", Table(columns, rows), checks, figure)


def fluctuation(trace: PlacementTrace) -> float:
    """Standard deviation of PR_max by window, when everything is as it always was."""
    values = [float(r.max()) for t, r in zip(trace.time, trace.ratios, strict=True) if t >= CALM_S]
    return float(np.std(values))


def reaction_s(trace: PlacementTrace) -> float:
    """Until half of the fragments that move have moved."""
    moved = np.cumsum(trace.migrations[round(LOADED_S / WINDOW_S) :])
    return float(np.argmax(moved >= moved[-1] / 2) * WINDOW_S)


def _runs(seed: int, alpha: float, *, quick: bool) -> tuple[PlacementTrace, PlacementTrace]:
    load, policy = balanced(seed, quick=quick), PlacementPolicy(alpha=alpha)
    change = foreign(some_sites(load, load.sites // 4), LOADED_S)
    return traced(load, policy, UNTIL_S), traced(load, policy, UNTIL_S, change)
