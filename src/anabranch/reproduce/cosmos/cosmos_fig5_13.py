"""COSMOS, figures 5.13 and 5.14: links, then machines, that change roles while rows come."""

from __future__ import annotations

from pathlib import Path

from anabranch.reproduce.cosmos.eddy_setups import (
    QUICK_ROWS,
    ROWS,
    SLOW_LINK_S,
    USUAL_LINK_S,
    always,
    compare,
    result,
    toggled_after,
)
from anabranch.reproduce.report.result import Result, at_most
from anabranch.sim.eddy_run import Setup

LINKS_CHANGE_S, LOADS_CHANGE_S = 250.0, 70.0
"""As in the paper, for 100,000 rows."""
ROW_S, DELAYED = 0.001, 6
"""Five threads beside the work leave a sixth of a machine. A row takes a millisecond here, so that static
plans are still under way after 70 s."""


def cosmos_fig5_13(out: Path, *, quick: bool = False) -> Result:
    """The slow link is T's for 250 s, then R's; both selectivities are 50 %."""
    rows = QUICK_ROWS if quick else ROWS
    at = LINKS_CHANGE_S * rows / ROWS
    links = {
        "R": toggled_after(at, USUAL_LINK_S, SLOW_LINK_S),
        "T": toggled_after(at, SLOW_LINK_S, USUAL_LINK_S),
    }
    compared = compare(Setup({"R": always(0.5), "T": always(0.5)}, link_s=links, rows=rows))
    checks = (at_most("eddy ÷ best static plan", compared.ratio, 0.8),)
    return result("cosmos-fig5-13", "links change roles", compared, checks, out)


def cosmos_fig5_14(out: Path, *, quick: bool = False) -> Result:
    """T's machine is loaded for 70 s, then R's; both selectivities are 10 %."""
    rows = QUICK_ROWS if quick else ROWS
    at = LOADS_CHANGE_S * rows / ROWS
    machines = {
        "R": toggled_after(at, ROW_S, DELAYED * ROW_S),
        "T": toggled_after(at, DELAYED * ROW_S, ROW_S),
    }
    compared = compare(Setup({"R": always(0.1), "T": always(0.1)}, machine_s=machines, rows=rows))
    checks = (at_most("eddy ÷ best static plan", compared.ratio, 0.9),)
    return result("cosmos-fig5-14", "loads change machines", compared, checks, out)
