"""COSMOS, figure 6.7: which fragments to give away. Rates of 4 sites are tripled from 20 s to 50 s."""

from __future__ import annotations

from pathlib import Path

from anabranch.adapt.placement.selection import Selection
from anabranch.reproduce.cosmos.placement_setups import balanced, raised, seeds, some_sites, traced
from anabranch.reproduce.report.picture import Chart, draw
from anabranch.reproduce.report.result import Cell, Check, Result, Spread, Table, at_least, at_most
from anabranch.sim.placement.placement_run import STATIC, PlacementPolicy, PlacementTrace

RAISED_S, FALLEN_S, UNTIL_S = 20.0, 50.0, 80.0
STAGES = {"before": (10.0, 20.0), "raised": (30.0, 50.0), "after": (65.0, 80.0)}
Traces = dict[Selection | None, PlacementTrace]
"""By strategy; None is static placement."""
AWARE, HALF, NONE = Selection.DATA_FLOW_AWARE, Selection.INTERMEDIATE, Selection.ELEMENTARY


def cosmos_fig6_7(out: Path, *, quick: bool = False) -> Result:
    """Extra transfers over static placement, and PR_max, by strategy."""
    runs = [_run(seed, quick=quick) for seed in seeds(quick=quick)]
    extra = {
        how: {stage: Spread.of(_extra(r, how, span) for r in runs) for stage, span in STAGES.items()}
        for how in Selection
    }
    ratio = {how: Spread.of(r[how].largest_ratio() for r in runs) for how in (None, *Selection)}
    rows: tuple[tuple[Cell, ...], ...] = tuple(
        (str(how), *extra[how].values(), ratio[how]) for how in Selection
    )
    rows += (("static", "–", "–", "–", ratio[None]),)
    seconds = [float(s) for s in range(int(UNTIL_S))]
    lines = {str(how): [_extra(runs[0], how, (s, s + 1.0)) for s in seconds] for how in Selection}
    chart = Chart("seconds", "extra Mbit/s", seconds, lines, {})
    columns = ("strategy", *(f"extra Mbit/s {stage}" for stage in STAGES), "PR_max")
    figure = draw(chart, out / "cosmos-fig6-7.png")
    return Result(
        "cosmos-fig6-7", "which fragments move", Table(columns, rows), _checks(extra, ratio), figure
    )


def _checks(
    extra: dict[Selection, dict[str, Spread]], ratio: dict[Selection | None, Spread]
) -> tuple[Check, ...]:
    during, after = ({how: extra[how][stage].median for how in Selection} for stage in ("raised", "after"))
    dynamic = [ratio[how].median for how in Selection]
    return (
        at_most("raised: data-flow aware ÷ intermediate", during[AWARE] / during[HALF], 1.0),
        at_most("after: data-flow aware ÷ intermediate", after[AWARE] / after[HALF], 1.0),
        at_most("after: intermediate ÷ elementary", after[HALF] / after[NONE], 1.05),
        at_most(
            "data-flow aware returns to where it was: extra after ÷ raised",
            after[AWARE] / during[AWARE],
            0.25,
        ),
        at_least("intermediate does not", after[HALF] / during[HALF], 0.4),
        at_most("PR_max of the three: largest ÷ smallest", max(dynamic) / min(dynamic), 2.0),
        at_least("static ÷ the worst of them", ratio[None].median / max(dynamic), 1.5),
    )


def _run(seed: int, *, quick: bool) -> Traces:
    load = balanced(seed, quick=quick)
    change = raised(some_sites(load, load.sites // 8), RAISED_S, FALLEN_S)
    found: Traces = {None: traced(load, STATIC, UNTIL_S, change)}
    for how in Selection:
        found[how] = traced(load, PlacementPolicy(selection=how), UNTIL_S, change)
    return found


def _extra(traces: Traces, how: Selection, span: tuple[float, float]) -> float:
    return _mbits(traces[how], span) - _mbits(traces[None], span)


def _mbits(trace: PlacementTrace, span: tuple[float, float]) -> float:
    return trace.between(trace.bytes_per_s, *span) * 8e-6
