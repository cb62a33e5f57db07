"""COSMOS, figure 5.8: one slow link. The site behind it is idle, and an eddy uses it."""

from __future__ import annotations

from pathlib import Path

from anabranch.reproduce.cosmos.eddy_setups import QUICK_ROWS, ROWS, SLOW_TO_T, always, compare, result
from anabranch.reproduce.report.result import Result, at_least, at_most
from anabranch.sim.eddy_run import Setup


def cosmos_fig5_8(out: Path, *, quick: bool = False) -> Result:
    """Sending a row to T takes 10 ms; both selectivities are 10 %."""
    rows = QUICK_ROWS if quick else ROWS
    compared = compare(Setup({"R": always(0.1), "T": always(0.1)}, link_s=SLOW_TO_T, rows=rows))
    checks = (
        at_most("eddy ÷ best static plan", compared.ratio, 1.0),
        at_least("T has rows although its link is slow", compared.eddy.first["T"], 0.02),
    )
    return result("cosmos-fig5-8", "one slow link", compared, checks, out)
