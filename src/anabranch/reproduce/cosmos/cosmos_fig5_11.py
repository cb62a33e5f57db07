"""COSMOS, figure 5.11: one machine has work of others to do."""

from __future__ import annotations

from pathlib import Path

from anabranch.reproduce.cosmos.eddy_setups import (
    MACHINE_S,
    QUICK_ROWS,
    ROWS,
    Compared,
    always,
    compare,
    result,
)
from anabranch.reproduce.report.result import Result, at_least, at_most
from anabranch.sim.eddy_machines import steady
from anabranch.sim.eddy_run import Setup


def cosmos_fig5_11(out: Path, *, quick: bool = False) -> Result:
    """A busy process takes half of T's machine; both selectivities are 10 %."""
    machines = {"R": steady(MACHINE_S), "T": steady(2 * MACHINE_S)}
    rows = QUICK_ROWS if quick else ROWS
    compared: Compared = compare(Setup({"R": always(0.1), "T": always(0.1)}, machine_s=machines, rows=rows))
    checks = (
        at_most("eddy ÷ best static plan", compared.ratio, 1.1),
        at_least(
            "the loaded machine first ÷ best", compared.static["T"].seconds / compared.best.seconds, 1.5
        ),
    )
    return result("cosmos-fig5-11", "one machine is loaded", compared, checks, out)
