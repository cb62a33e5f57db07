"""COSMOS, figure 5.12: selectivities that are exchanged half-way, on simulated machines and in the engine."""

from __future__ import annotations

import tempfile
from pathlib import Path

from anabranch.bench.adapting.stations import run_orders
from anabranch.reproduce.cosmos.eddy_setups import COLUMNS, QUICK_ROWS, ROWS, compare, toggled_at
from anabranch.reproduce.report.picture import Chart, draw
from anabranch.reproduce.report.result import Result, Table, at_most
from anabranch.sim.eddy_run import Setup
from anabranch.workloads.chain import Chain, flipping

LOW, HIGH = 0.2, 2.0
"""As in the paper, for the simulator."""
ENGINE_LOW, ENGINE_HIGH = 0.1, 20.0
"""A row between two stations costs a fraction of a microsecond here, not a message, so that selectivities
have to differ more before the order is felt (section 5.4.2 says the same of the number of operators)."""


def cosmos_fig5_12(out: Path, *, quick: bool = False) -> Result:
    """R ⋈ S keeps 20 % and S ⋈ T 200 %, then the reverse."""
    rows = QUICK_ROWS if quick else ROWS
    half = rows / 2
    selectivity = {"R": toggled_at(half, LOW, HIGH), "T": toggled_at(half, HIGH, LOW)}
    compared = compare(Setup(selectivity, rows=rows))
    batches, chain = (16, Chain(20_000, 1_000)) if quick else (24, Chain(60_000, 3_000))
    with tempfile.TemporaryDirectory() as scratch:
        measured = run_orders(
            Path(scratch),
            chain,
            lambda: chain.batches(batches, flipping(ENGINE_LOW, ENGINE_HIGH, every=batches // 2)),
        )
    first = sum(measured.first) / len(measured.first)
    by_order = {
        "simulated": compared.line(),
        "engine, CPU": (measured.fixed["r–s"], measured.fixed["s–t"], measured.eddy, first),
    }
    checks = (
        at_most("simulated: eddy ÷ best static plan", compared.ratio, 0.9),
        at_most("engine: eddy ÷ best fixed order, CPU", measured.ratio, 0.9),
    )
    times = {name: [v / line[0] for v in line[:3]] for name, line in by_order.items()}
    lines = tuple((name, *line) for name, line in by_order.items())
    chart = Chart("order of joins", "time ÷ R ⋈ S first", ("R ⋈ S first", "S ⋈ T first", "eddy"), times, {})
    picture = draw(chart, out / "cosmos-fig5-12.png")
    return Result("cosmos-fig5-12", "selectivities change roles", Table(COLUMNS, lines), checks, picture)
