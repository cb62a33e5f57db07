"""COSMOS, figures 5.9 and 5.10: one slow link, by selectivity: response time, and where rows go first."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import numpy as np

from anabranch.reproduce.cosmos.eddy_setups import (
    COLUMNS,
    QUICK_ROWS,
    ROWS,
    SLOW_TO_T,
    Compared,
    always,
    compare,
)
from anabranch.reproduce.report.picture import Chart, draw
from anabranch.reproduce.report.result import Result, Table, at_least, at_most, between
from anabranch.sim.eddy_run import Setup

SELECTIVITIES = (0.0, 0.15, 0.3, 0.45, 0.6, 0.75, 0.9)
QUICK_SELECTIVITIES = (0.0, 0.45, 0.9)


def _runs(*, quick: bool) -> dict[float, Compared]:
    rows = QUICK_ROWS if quick else ROWS
    return {
        s: compare(Setup({"R": always(s), "T": always(s)}, link_s=SLOW_TO_T, rows=rows))
        for s in (QUICK_SELECTIVITIES if quick else SELECTIVITIES)
    }


def _table(runs: dict[float, Compared]) -> Table:
    return Table(("selectivity", *COLUMNS[1:]), tuple((s, *run.line()) for s, run in runs.items()))


def cosmos_fig5_9(out: Path, *, quick: bool = False) -> Result:
    """Response time by selectivity."""
    runs = _runs(quick=quick)
    at = list(runs)
    eddy = [run.eddy.seconds for run in runs.values()]
    best = [run.best.seconds for run in runs.values()]
    slopes = [float(np.polyfit(at[1:], times[1:], 1)[0]) for times in (eddy, best)]
    chart = Chart("selectivity", "response time (s)", at, {"eddy": eddy, "best static plan": best}, {})
    checks = (
        at_most("growth of the eddy's time ÷ of the best static plan's", slopes[0] / slopes[1], 0.8),
        at_most("at the highest selectivity, eddy ÷ best static plan", eddy[-1] / best[-1], 0.8),
    )
    picture = draw(chart, out / "cosmos-fig5-9.png")
    return Result("cosmos-fig5-9", "a slow link, by selectivity", _table(runs), checks, picture)


def cosmos_fig5_10(out: Path, *, quick: bool = False) -> Result:
    """Part of the rows that go to the fast site first."""
    runs = _runs(quick=quick)
    first = [run.eddy.first["R"] for run in runs.values()]
    chart = Chart("selectivity", "rows to R first", list(runs), {"eddy": first}, {"half": 0.5})
    falls = max(b - a for a, b in pairwise(first))
    checks = (
        at_least("at selectivity 0, nearly all", first[0], 0.9),
        between("at selectivity 0.9, about half", first[-1], 0.45, 0.65),
        at_most("it never rises with the selectivity by more than", falls, 0.02),
    )
    picture = draw(chart, out / "cosmos-fig5-10.png")
    return Result("cosmos-fig5-10", "where rows go first, by selectivity", _table(runs), checks, picture)
