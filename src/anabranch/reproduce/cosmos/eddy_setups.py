"""The machines of the eddy experiments (Zhou, COSMOS, section 5.4), and how their runs are compared.

Rows of S come in at one machine; R ⋈ S is evaluated at a second and S ⋈ T at a third. The paper gives the
sizes of streams, the 10 ms of a slow link and when things change. What a row costs is not in it: here it is
half a millisecond of a machine, and a tenth of one for a usual link.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from anabranch.reproduce.report.picture import Chart, draw
from anabranch.reproduce.report.result import Check, Result, Table
from anabranch.sim.eddy_machines import AtTime, steady
from anabranch.sim.eddy_run import STATIONS, Outcome, Selectivity, Setup, run_eddy

ROWS, QUICK_ROWS = 100_000, 20_000
MACHINE_S, USUAL_LINK_S, SLOW_LINK_S = 0.0005, 0.0001, 0.01
NAMES = {"R": "R ⋈ S first", "T": "S ⋈ T first"}
SLOW_TO_T = {"R": steady(USUAL_LINK_S), "T": steady(SLOW_LINK_S)}


@dataclass(frozen=True, slots=True)
class Compared:
    """An eddy and both static plans on the same machines."""

    eddy: Outcome
    static: dict[str, Outcome]

    @property
    def best(self) -> Outcome:
        return min(self.static.values(), key=lambda outcome: outcome.seconds)

    @property
    def ratio(self) -> float:
        """Response time of the eddy against that of the best static plan."""
        return self.eddy.seconds / self.best.seconds

    def line(self) -> tuple[float, float, float, float]:
        """Seconds of both static plans and of the eddy; part of the rows that the eddy sent to R first."""
        seconds = (self.static[name].seconds for name in STATIONS)
        return *seconds, self.eddy.seconds, self.eddy.first["R"]  # type: ignore[return-value]


def compare(setup: Setup) -> Compared:
    """Run an eddy and both static plans."""
    return Compared(run_eddy(setup), {name: run_eddy(setup, always=name) for name in STATIONS})


def always(value: float) -> Selectivity:
    return lambda _: value


def toggled_at(row: float, before: float, after: float) -> Selectivity:
    """A selectivity that changes with a row of S."""
    return lambda number: before if number < row else after


def toggled_after(seconds: float, before: float, after: float) -> AtTime:
    """A cost that changes at a time."""
    return lambda now: before if now < seconds else after


COLUMNS = ("", *(f"{name} (s)" for name in NAMES.values()), "eddy (s)", "of the eddy's rows, R first")


def result(name: str, title: str, compared: Compared, checks: tuple[Check, ...], out: Path) -> Result:
    """One setting: a table of a line, and response times as the picture."""
    chart = Chart(
        "order of joins",
        "response time (s)",
        (*NAMES.values(), "eddy"),
        {"seconds": [c.seconds for c in (*compared.static.values(), compared.eddy)]},
        {"best static": compared.best.seconds},
    )
    table = Table(COLUMNS, (("simulated", *compared.line()),))
    return Result(name, title, table, checks, draw(chart, out / f"{name}.png"))
