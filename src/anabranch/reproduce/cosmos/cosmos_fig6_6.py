"""COSMOS, figure 6.6: fragments against single operators as what moves.

The work is the same everywhere: four filters on each stream, and joins. By operator, joins move on their own
and the filters of a stream in one to four units; every unit that moves away makes another flow.
"""

from __future__ import annotations

from pathlib import Path

from anabranch.reproduce.cosmos.placement_setups import seeds, skewed, traced
from anabranch.reproduce.report.picture import Chart, draw
from anabranch.reproduce.report.result import Result, Spread, Table, at_least, at_most
from anabranch.sim.placement.placement_run import PlacementPolicy

OPERATORS = (1, 2, 3, 4)
UNTIL_S, FROM_S = 30.0, 15.0


def cosmos_fig6_6(out: Path, *, quick: bool = False) -> Result:
    """Zipf 0.95: PR_max and transfers by the number of operators of a fragment."""
    fragments = _measured(1, quick=quick)
    each = {n: _measured(n + 1, quick=quick) for n in OPERATORS}
    rows = tuple((n, fragments[0], each[n][0], fragments[1], each[n][1]) for n in OPERATORS)
    ratio = {n: each[n][0].median / fragments[0].median for n in OPERATORS}
    checks = (
        at_most("up to 2 operators: PR_max by operator ÷ by fragment", max(ratio[1], ratio[2]), 5),
        at_least("from 3 on: PR_max by operator ÷ by fragment", min(ratio[3], ratio[4]), 100),
        at_least("and transfers, with 4", each[4][1].median / fragments[1].median, 3),
        at_most("transfers by fragment, of the network", fragments[1].median / 100, 0.6),
    )
    chart = Chart(
        "operators per fragment",
        "Mbit/s",
        OPERATORS,
        {"operators": [each[n][1].median for n in OPERATORS]},
        {"fragments": fragments[1].median},
    )
    columns = (
        "operators",
        "PR_max, fragments",
        "PR_max, operators",
        "Mbit/s, fragments",
        "Mbit/s, operators",
    )
    figure = draw(chart, out / "cosmos-fig6-6.png")
    return Result("cosmos-fig6-6", "fragments or operators", Table(columns, rows), checks, figure)


def _measured(units: int, *, quick: bool) -> tuple[Spread, Spread]:
    """PR_max, and Mbit/s between sites; half the sites have half the network."""
    traces = [
        traced(skewed(seed, quick=False, units=units), PlacementPolicy(), UNTIL_S)
        for seed in seeds(quick=quick)
    ]
    ratios = Spread.of(t.largest_ratio(FROM_S) for t in traces)
    return ratios, Spread.of(t.between(t.bytes_per_s, FROM_S) * 8e-6 for t in traces)
