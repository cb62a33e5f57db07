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
AWARE, PRINTED, HALF, NONE, STAY = (
    "data-flow aware",
    "the same, as printed",
    "intermediate",
    "elementary",
    "static",
)
WAYS = {
    AWARE: PlacementPolicy(),
    PRINTED: PlacementPolicy(homecoming=False),
    HALF: PlacementPolicy(selection=Selection.INTERMEDIATE),
    NONE: PlacementPolicy(selection=Selection.ELEMENTARY),
}
"""By name. As printed, sites do not call their own fragments home (`adapt/placement/homecoming.py`)."""
Traces = dict[str, PlacementTrace]


def cosmos_fig6_7(out: Path, *, quick: bool = False) -> Result:
    """Extra transfers over static placement, and PR_max, by strategy; always on 32 sites."""
    runs = [_run(seed) for seed in seeds(quick=quick)]
    extra = {
        way: {stage: Spread.of(_extra(r, way, span) for r in runs) for stage, span in STAGES.items()}
        for way in WAYS
    }
    ratio = {way: Spread.of(r[way].largest_ratio() for r in runs) for way in (*WAYS, STAY)}
    rows: tuple[tuple[Cell, ...], ...] = tuple((way, *extra[way].values(), ratio[way]) for way in WAYS)
    rows += ((STAY, "–", "–", "–", ratio[STAY]),)
    seconds = [float(s) for s in range(int(UNTIL_S))]
    lines = {way: [_extra(runs[0], way, (s, s + 1.0)) for s in seconds] for way in WAYS}
    chart = Chart("seconds", "extra Mbit/s", seconds, lines, {})
    columns = ("strategy", *(f"extra Mbit/s {stage}" for stage in STAGES), "PR_max")
    figure = draw(chart, out / "cosmos-fig6-7.png")
    return Result(
        "cosmos-fig6-7", "which fragments move", Table(columns, rows), _checks(extra, ratio), figure
    )


def _checks(extra: dict[str, dict[str, Spread]], ratio: dict[str, Spread]) -> tuple[Check, ...]:
    before, during, after = ({way: extra[way][stage].median for way in WAYS} for stage in STAGES)
    dynamic = [ratio[way].median for way in (AWARE, HALF, NONE)]
    return (
        at_most("before: data-flow aware ÷ intermediate", before[AWARE] / max(before[HALF], 1e-9), 1.0),
        at_most("raised: data-flow aware ÷ intermediate", during[AWARE] / during[HALF], 1.0),
        at_most("raised: intermediate ÷ elementary", during[HALF] / during[NONE], 1.0),
        at_most("after: data-flow aware ÷ intermediate", after[AWARE] / after[HALF], 1.0),
        at_most("after: intermediate ÷ elementary", after[HALF] / after[NONE], 1.05),
        at_most(
            "data-flow aware returns to where it was: extra after ÷ raised",
            after[AWARE] / during[AWARE],
            0.25,
        ),
        at_least("intermediate does not", after[HALF] / during[HALF], 0.4),
        at_most("PR_max of the three: largest ÷ smallest", max(dynamic) / min(dynamic), 2.0),
        at_least("static ÷ the worst of them", ratio[STAY].median / max(dynamic), 1.5),
    )


def _run(seed: int) -> Traces:
    load = balanced(seed, quick=False)
    change = raised(some_sites(load, load.sites // 8), RAISED_S, FALLEN_S)
    policies = {**WAYS, STAY: STATIC}
    return {way: traced(load, policy, UNTIL_S, change) for way, policy in policies.items()}


def _extra(traces: Traces, way: str, span: tuple[float, float]) -> float:
    return _mbits(traces[way], span) - _mbits(traces[STAY], span)


def _mbits(trace: PlacementTrace, span: tuple[float, float]) -> float:
    return trace.between(trace.bytes_per_s, *span) * 8e-6
