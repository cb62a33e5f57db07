"""dcape-fig7 and -fig8: local optimisation and load balancing, alone and together.

D-CAPE, section 5.2, which says neither how long the windows are nor how long it ran. Both must
outlast the fall of the rates by far: changing plans then computes B ⋈ C once, which is as much as A ⋈ B
has made until then, and what is spared afterwards is A with what is left of B.

Accumulated throughput is told in two ways. Results per second of the critical path, the CPU time of the
busiest site of each batch, do not depend on how fast rows arrive: the checks use them. The curves are a
replay of the same times (`dcape_replay`) against arrivals five times as fast as the busiest site can
follow without adaptation; those of figure 8 as fast as it can, on the whole: in the paper the tuples of
No-Adapt become fewer again before the end.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from pathlib import Path

from anabranch.reproduce.dcape.dcape_load import Load
from anabranch.reproduce.dcape.dcape_replay import Floats, Replayed, replay
from anabranch.reproduce.dcape.dcape_run import REPEATS, Measured, Setting, measure, typical
from anabranch.reproduce.dcape.dcape_spark import results_on_spark
from anabranch.reproduce.report.picture import Chart, draw
from anabranch.reproduce.report.result import Result, Spread, Table, at_least, at_most

OVERLOAD = 5.0
KEEPS_UP = 1.0
"""Figure 8: arrivals that No-Adapt has worked off at the end, as in the paper."""
SCALE = 450.0
"""Rows for one of the paper's."""
WINDOW_S, LENGTH_S = 120.0, 150.0
SETTINGS = {
    "No-Adapt": Setting(),
    "LM-only": Setting(migration="auto"),
    "PTLB-only": Setting(rebalance="ptlb"),
    "MSLB-only": Setting(rebalance="mslb"),
    "LM-PTLB": Setting(rebalance="ptlb", migration="auto"),
    "LM-MSLB": Setting(rebalance="mslb", migration="auto"),
}


def falling_load(scale: float, window_s: float = WINDOW_S) -> Load:
    """All streams at 100 rows a second, B and C at 5 from the 30th on."""
    return Load(
        100 * scale, window_s, low_rate=5 * scale, keys=max(round(scale), 100), values=300, length_s=LENGTH_S
    )


def spark_load() -> Load:
    """Shorter, for Spark, where a batch takes a second whatever is in it."""
    return replace(falling_load(10, 20), length_s=45, drop_s=15)


@cache
def falling_turns(*, quick: bool) -> dict[str, list[Measured]]:
    """Every setting on the same rows, in turns."""
    load = falling_load(SCALE / 45 if quick else SCALE)
    turns = [
        {name: measure(load, setting) for name, setting in SETTINGS.items()}
        for _ in range(1 if quick else REPEATS)
    ]
    return {name: [turn[name] for turn in turns] for name in SETTINGS}


def dcape_fig7(out: Path, *, quick: bool = False) -> Result:
    """Accumulated throughput of the four settings, for PTLB and MSLB."""
    turns = falling_turns(quick=quick)
    runs = {name: typical(mine) for name, mine in turns.items()}
    curves = _replays(runs, OVERLOAD)
    gain = {name: _gain(mine, turns["No-Adapt"]) for name, mine in turns.items()}
    rows = tuple(
        (
            name,
            sum(run.critical_s),
            gain[name],
            float(curves[name].results[-1] / max(curves["No-Adapt"].results[-1], 1)),
            float(curves[name].apart[-1] / max(curves["No-Adapt"].apart[-1], 1)),
            sum(run.moved),
            run.plan_changes,
            run.copied_bytes / 1e6,
            run.rebuilt_rows,
        )
        for name, run in runs.items()
    )
    differing = sum(run.digest != runs["No-Adapt"].digest for mine in turns.values() for run in mine)
    on_spark = {} if quick else results_on_spark(spark_load(), SETTINGS)
    return Result(
        "dcape-fig7",
        "accumulated throughput with and without both adaptations",
        Table(
            (
                "setting",
                "critical path (s)",
                "throughput ÷ No-Adapt",
                "at the end of the replay",
                "the same, machines apart",
                "partitions moved",
                "plans changed",
                "copied (MB)",
                "rows rebuilt",
            ),
            rows,
        ),
        (
            at_least("PTLB alone, about twice", gain["PTLB-only"], 1.6),
            at_least("MSLB alone, about twice", gain["MSLB-only"], 1.6),
            at_least("local optimisation alone, about twice", gain["LM-only"], 1.6),
            at_least("both, with PTLB", gain["LM-PTLB"], 4.0),
            at_least("both, with MSLB", gain["LM-MSLB"], 4.0),
            at_most("runs with other results than No-Adapt", float(differing), 0.0),
            *(
                [at_most("different results on Spark, beyond one", len(set(on_spark.values())) - 1.0, 0.0)]
                if on_spark
                else []
            ),
        ),
        draw(_chart("results", {n: c.results for n, c in curves.items()}), out / "dcape-fig7.png"),
    )


def dcape_fig8(out: Path, *, quick: bool = False) -> Result:
    """Tuples in the system over time: in states, and those that wait."""
    runs = {name: typical(mine) for name, mine in falling_turns(quick=quick).items()}
    curves = _replays(runs, KEEPS_UP)
    peak = {name: float(curve.tuples.max()) for name, curve in curves.items()}
    base = peak["No-Adapt"]
    return Result(
        "dcape-fig8",
        "total tuples in the system",
        Table(
            ("setting", "most tuples", "÷ No-Adapt", "tuples at the end", "÷ No-Adapt at the end"),
            tuple(
                (
                    name,
                    peak[name],
                    peak[name] / base,
                    float(curve.tuples[-1]),
                    float(curve.tuples[-1] / curves["No-Adapt"].tuples[-1]),
                )
                for name, curve in curves.items()
            ),
        ),
        (
            at_most("LM alone bounds the build-up", peak["LM-only"] / base, 0.7),
            at_most("LM with PTLB does", peak["LM-PTLB"] / base, 0.7),
            at_most("LM with MSLB does", peak["LM-MSLB"] / base, 0.7),
            at_least("PTLB alone does not", peak["PTLB-only"] / base, 0.8),
            at_least("MSLB alone does not", peak["MSLB-only"] / base, 0.8),
        ),
        draw(_chart("tuples", {n: c.tuples for n, c in curves.items()}), out / "dcape-fig8.png"),
    )


def _gain(mine: list[Measured], base: list[Measured]) -> Spread:
    """Throughput against that of the same turn without adaptation."""
    return Spread.of(m.throughput() / b.throughput() for m, b in zip(mine, base, strict=True))


def _replays(runs: dict[str, Measured], overload: float) -> dict[str, Replayed]:
    critical = runs["No-Adapt"].critical_s
    interval_s = sum(critical) / len(critical) / overload
    return {name: replay(run, interval_s) for name, run in runs.items()}


def _chart(what: str, lines: dict[str, Floats]) -> Chart:
    batches = len(next(iter(lines.values())))
    x = [100 * (i + 1) / batches for i in range(batches)]
    return Chart("% of the arrivals", what, x, {n: [float(v) for v in y] for n, y in lines.items()}, {})
