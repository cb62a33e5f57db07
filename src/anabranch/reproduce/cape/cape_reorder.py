"""cape-reorder: two selectivities change places at run time, a hundredfold, and the optimizer follows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from anabranch.engine.settings import Settings
from anabranch.plan.cost.migration_cost import Strategy
from anabranch.reproduce.cape.cape_run import CapeRun, Change, Trace, run_cape
from anabranch.reproduce.cape.cape_streams import NAMES, OLD_PLAN, Arrivals, Load
from anabranch.reproduce.report.picture import Chart, draw
from anabranch.reproduce.report.result import Check, Result, Table, at_least, at_most

SITES = 2
PER_WINDOW = 8
SHARDS = 64
INTERVAL_US = 1_000_000
FEW, ONE, MANY = 0.1, 1.0, 10.0
"""Partners that a row has in the window of the next stream: a–b and c–d go from one end to the other."""
REPEATS = 3
"""Runs of each side, in turns on the same rows; the least seconds of them count."""
BY_HAND = "(a (b (c d)))"
"""The best tree after the flip: the join that has become selective first."""

Runs = Sequence[Trace]
"""The same side, several times."""


@dataclass(frozen=True, slots=True)
class Flip:
    """The runs; the selectivities change at batch `at`, and from batch `steady` on all is quiet again."""

    stale: Runs
    adaptive: Runs
    static: Mapping[str, Runs]
    at: int
    steady: int

    def seconds(self, runs: Runs, first: int) -> float:
        return min(sum(trace.critical_s[first:]) for trace in runs)


def cape_reorder(out: Path, *, quick: bool = False) -> Result:
    """The stale plan, the optimizer, and plans set by hand just before the flip."""
    flip = run_flip(
        rows=8_000 if quick else 20_000,
        after=2 * PER_WINDOW if quick else 4 * PER_WINDOW,
        repeats=1 if quick else REPEATS,
    )
    best_name, best = min(flip.static.items(), key=lambda item: flip.seconds(item[1], flip.steady))
    runs = {"stale plan": flip.stale, "optimizer": flip.adaptive, **flip.static}
    changed = sorted({n for trace in flip.adaptive for n in changes_of(trace)})
    steady = flip.seconds(flip.stale, flip.steady) / flip.seconds(flip.adaptive, flip.steady)
    whole = flip.seconds(flip.stale, flip.at) / flip.seconds(flip.adaptive, flip.at)
    off = flip.seconds(flip.adaptive, flip.steady) / flip.seconds(best, flip.steady) - 1
    table = Table(
        (
            "run",
            "plan at the end",
            "whole time after the flip (critical path, s)",
            "× the stale plan's throughput",
            f"steady, from batch {flip.steady} (s)",
            "× the stale plan's",
        ),
        tuple(
            (
                name,
                ", ".join(sorted({plan for trace in t for plan in trace.plans[-1]})),
                flip.seconds(t, flip.at),
                flip.seconds(flip.stale, flip.at) / flip.seconds(t, flip.at),
                flip.seconds(t, flip.steady),
                flip.seconds(flip.stale, flip.steady) / flip.seconds(t, flip.steady),
            )
            for name, t in runs.items()
        ),
    )
    chart = Chart(
        "batch",
        "seconds of the busiest site",
        list(range(len(flip.stale[0].critical_s))),
        {name: t[0].critical_s for name, t in runs.items()},
        {},
        log_y=True,
    )
    results = {name: sum(t[0].results) for name, t in runs.items()}
    return Result(
        "cape-reorder",
        f"σ_AB × 100 and σ_CD ÷ 100 at batch {flip.at}, {SITES} sites; engine without a JVM (LocalRun); "
        f"the optimizer changed plans after batches {', '.join(map(str, changed)) or 'none'}; "
        f"{whole:.3g} times the stale throughput over the whole time after the flip",
        table,
        (
            at_least("steady throughput after the reorder, optimizer ÷ stale plan", steady, 5.0),
            at_most(f"steady, optimizer dearer than the best static plan ({best_name}) by", off, 0.10),
            Check(
                "every run gives the same number of results",
                len({sum(trace.results) for t in runs.values() for trace in t}) == 1,
                ", ".join(f"{n:,}" for n in results.values()),
            ),
        ),
        draw(chart, out / "cape-reorder.png"),
    )


def changes_of(trace: Trace) -> list[int]:
    """Batches after which plans were others than before."""
    return [n for n in range(1, len(trace.plans)) if trace.plans[n] != trace.plans[n - 1]]


def run_flip(*, rows: int, after: int, repeats: int = 1) -> Flip:
    """`rows` per stream and batch, `after` batches after the flip, besides those until it is steady."""
    at = PER_WINDOW + 4
    batches = at + PER_WINDOW + after
    what = CapeRun(
        Arrivals({0: _load(rows, FEW, MANY), at: _load(rows, MANY, FEW)}, INTERVAL_US),
        PER_WINDOW * INTERVAL_US,
        batches,
        settings=Settings(sites=SITES, slots=1, migration="off", rebalance="off"),
        sharded=True,
    )
    free = replace(what, settings=replace(what.settings, migration="auto"))
    stale, adaptive = [], []
    static: dict[str, list[Trace]] = {}
    for _ in range(repeats):
        adaptive.append(run_cape(free))
        # Written as the optimizer writes it, or one tree would run twice and the luckier run be the best.
        for plan in sorted({BY_HAND, *adaptive[0].plans[-1]} - {OLD_PLAN}):
            by_hand = replace(what, changes={at - 2: Change(plan, Strategy.MOVING_STATE)})
            static.setdefault(f"{plan} before the flip", []).append(run_cape(by_hand))
        stale.append(run_cape(what))
    # A window after the last change, and at least after the flip, no row from before is left.
    last = max((n for trace in adaptive for n in changes_of(trace)), default=at)
    steady = min(max(last, at) + PER_WINDOW + 2, batches - 4)
    return Flip(stale, adaptive, static, at, steady)


def _load(rows: int, ab: float, cd: float) -> Load:
    """Values of the keys that give a row so many partners in a full window."""
    in_window = rows * PER_WINDOW / SHARDS
    values = {"x": round(in_window / ab), "y": round(in_window / ONE), "z": round(in_window / cd)}
    return Load(dict.fromkeys(NAMES, rows * 1e6 / INTERVAL_US), values, SHARDS)
