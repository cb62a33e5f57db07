"""COSMOS, figures 5.5 to 5.7, in the engine: steady selectivities, the order that rows take, what decides it.

S is large, R and T are small. S ⋈ T keeps 100 % of S; R ⋈ S keeps 200 % or 20 %.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping
from functools import cache, partial
from pathlib import Path

import pyarrow as pa

from anabranch.adapt.eddy.lottery import DecidedBy
from anabranch.bench.adapting.stations import WARM_UP, OrderBench, run_orders
from anabranch.reproduce.report.picture import Chart, draw
from anabranch.reproduce.report.result import Check, Result, Table, at_least, at_most
from anabranch.workloads.chain import Chain

CASES = {"200 %": 2.0, "20 %": 0.2}
BETTER = {"200 %": "s–t", "20 %": "r–s"}
CHAIN, QUICK_CHAIN = Chain(120_000, 12_000), Chain(30_000, 3_000)
BATCHES, QUICK_BATCHES = 16, 9


def _load(chain: Chain, batches: int, kept: float) -> Iterator[Mapping[str, pa.Table]]:
    return chain.batches(batches, lambda _: (kept, 1.0))


@cache
def _measured(*, quick: bool) -> dict[str, OrderBench]:
    chain, batches = (QUICK_CHAIN, QUICK_BATCHES) if quick else (CHAIN, BATCHES)
    with tempfile.TemporaryDirectory() as scratch:
        return {
            case: run_orders(Path(scratch) / case.split()[0], chain, partial(_load, chain, batches, kept))
            for case, kept in CASES.items()
        }


def _share(case: str, measured: OrderBench) -> float:
    """Part of the rows that took the better order, once the eddy knew something."""
    first = measured.first[WARM_UP:]
    to_r = sum(first) / len(first)
    return to_r if BETTER[case] == "r–s" else 1.0 - to_r


def cosmos_fig5_5(out: Path, *, quick: bool = False) -> Result:
    """CPU time of an eddy and of both fixed orders."""
    measured = _measured(quick=quick)
    rows = tuple((case, m.fixed["r–s"], m.fixed["s–t"], m.eddy, m.ratio) for case, m in measured.items())
    checks: list[Check] = []
    for case, m in measured.items():
        worse = max(m.fixed.values()) / min(m.fixed.values())
        if not quick:  # in small batches, what a station costs without rows is felt
            checks.append(at_most(f"R ⋈ S keeps {case}: eddy ÷ better order", m.ratio, 1.1))
        checks.append(at_least(f"R ⋈ S keeps {case}: worse order ÷ better order", worse, 1.05))
    lines = {case: (*m.fixed.values(), m.eddy) for case, m in measured.items()}
    chart = Chart(
        "order of joins",
        "CPU (s)",
        ("R ⋈ S first", "S ⋈ T first", "eddy"),
        {f"R ⋈ S keeps {case}": line for case, line in lines.items()},
        {},
    )
    columns = ("R ⋈ S keeps", "R ⋈ S first (s)", "S ⋈ T first (s)", "eddy (s)", "eddy ÷ better")
    picture = draw(chart, out / "cosmos-fig5-5.png")
    return Result("cosmos-fig5-5", "steady selectivities", Table(columns, rows), tuple(checks), picture)


def cosmos_fig5_6(out: Path, *, quick: bool = False) -> Result:
    """Part of the rows that take the better order."""
    shares = {case: _share(case, m) for case, m in _measured(quick=quick).items()}
    checks = tuple(
        at_least(f"R ⋈ S keeps {case}: rows in the better order", s, 0.8) for case, s in shares.items()
    )
    chart = Chart(
        "R ⋈ S keeps",
        "share of rows",
        list(shares),
        {"rows in the better order": list(shares.values())},
        {"paper": 0.8},
    )
    table = Table(("R ⋈ S keeps", "rows in the better order"), tuple(shares.items()))
    return Result(
        "cosmos-fig5-6", "orders that rows take", table, checks, draw(chart, out / "cosmos-fig5-6.png")
    )


def cosmos_fig5_7(out: Path, *, quick: bool = False) -> Result:
    """What decided: tickets, or the price of stations without any."""
    decided = {
        case: {
            by: m.decided.count(by) / len(m.decided) for by in (DecidedBy.LOTTERY, DecidedBy.BACK_PRESSURE)
        }
        for case, m in _measured(quick=quick).items()
    }
    checks = (
        at_least("no station is selective: by back-pressure", decided["200 %"][DecidedBy.BACK_PRESSURE], 0.8),
        at_least("one is: by lottery", decided["20 %"][DecidedBy.LOTTERY], 0.8),
    )
    rows = tuple((case, by[DecidedBy.LOTTERY], by[DecidedBy.BACK_PRESSURE]) for case, by in decided.items())
    lines = {str(by): [d[by] for d in decided.values()] for by in next(iter(decided.values()))}
    picture = draw(
        Chart("R ⋈ S keeps", "share of rows decided", list(decided), lines, {}), out / "cosmos-fig5-7.png"
    )
    table = Table(("R ⋈ S keeps", "by lottery", "by back-pressure"), rows)
    return Result("cosmos-fig5-7", "what decides", table, checks, picture)
