"""dcape-fig9 to -fig13: parallel track against moving state when partitions move.

D-CAPE, section 5.3. Rates are equal and steady in figures 9 to 12. So that plans differ, site 0
has changed to ((b c) a) early on, as the paper's most loaded machine has; balancing begins after 15 s.
In figure 13 B and C fall to a twentieth at that moment, site 0 then changes its plan, and partitions move.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path

from anabranch.plan.cost.migration_cost import Strategy
from anabranch.reproduce.dcape.dcape_fig7 import falling_load
from anabranch.reproduce.dcape.dcape_load import Load
from anabranch.reproduce.dcape.dcape_replay import replay
from anabranch.reproduce.dcape.dcape_run import REPEATS, Measured, Setting, measure, typical
from anabranch.reproduce.report.picture import Chart, draw
from anabranch.reproduce.report.result import Cell, Check, Result, Table, at_least, at_most, between

RATES, WINDOWS_S = (30, 40, 50), (15, 30, 45, 60)
SCALE = 100.0
"""Rows for one of the paper's."""
LENGTH_S = 120.0
"""The longest window and what comes before it leave a third of it for what balancing brought."""
BALANCE_AT, SWITCH_AT = 5, 2
"""Batches of 3 s."""
ABOUT_TWICE = 1.6
"""As in figure 7."""
CLEARLY = 1.05
"""What a winner must be ahead by to be called one."""
BASE = Setting()
STRATEGIES = {
    strategy: Setting(rebalance=strategy, balance_at=BALANCE_AT, switch_at=SWITCH_AT)
    for strategy in ("ptlb", "mslb")
}
AUTO = Setting(rebalance="auto", balance_at=BALANCE_AT, switch_at=SWITCH_AT, stop_at=BALANCE_AT + 2)
NAME_OF = {Strategy.PARALLEL_TRACK: "ptlb", Strategy.MOVING_STATE: "mslb", None: "none"}

LABELS = {
    "off": "no balancing",
    "ptlb": "PTLB",
    "lemma": "PTLB, lemma 2.2",
    "exact": "PTLB, exact",
    "mslb": "MSLB",
}
"""Of lines."""


def grid_load(rate: float, window_s: float, *, quick: bool) -> Load:
    scale = SCALE / 10 if quick else SCALE
    return Load(rate * scale, window_s, keys=100, values=100, length_s=LENGTH_S)


@cache
def cell(rate: int, window_s: int, strategy: str, *, quick: bool) -> Measured:
    """One cell of the grid."""
    load = grid_load(rate, window_s, quick=quick)
    return (
        measure(load, AUTO)
        if strategy == "auto"
        else _typical(load, {"none": BASE, **STRATEGIES}[strategy], quick=quick)
    )


def _typical(load: Load, setting: Setting, *, quick: bool) -> Measured:
    return typical([measure(load, setting) for _ in range(1 if quick else REPEATS)])


Ratios = Mapping[str, Sequence[float]]
"""Throughput against none, from the smallest window to the largest, by strategy."""


def dcape_fig9(out: Path, *, quick: bool = False) -> Result:
    return _throughputs("dcape-fig9", RATES[0], _gains_for_long_windows, out, quick=quick)


def dcape_fig10(out: Path, *, quick: bool = False) -> Result:
    return _throughputs("dcape-fig10", RATES[1], _gains_for_long_windows, out, quick=quick)


def dcape_fig11(out: Path, *, quick: bool = False) -> Result:
    return _throughputs("dcape-fig11", RATES[2], _gains_at_a_high_rate, out, quick=quick)


def _gains_for_long_windows(ratios: Ratios) -> list[Check]:
    """The difference to the base case grows with the window, by either strategy."""
    return [
        at_least("PTLB gains at the largest window", ratios["ptlb"][-1], 1.0),
        at_least("MSLB gains at the largest window", ratios["mslb"][-1], 1.0),
    ]


def _gains_at_a_high_rate(ratios: Ratios) -> list[Check]:
    """About twice the base case by either at the smallest window; then PTLB's gain becomes smaller.

    It takes long, and much of an overloaded sender (section 5.3 on figure 11).
    """
    ptlb, mslb = ratios["ptlb"], ratios["mslb"]
    return [
        at_least("PTLB at the smallest window, about twice", ptlb[0], ABOUT_TWICE),
        at_least("MSLB at the smallest window, about twice", mslb[0], ABOUT_TWICE),
        at_most("PTLB's gain, largest window ÷ smallest", ptlb[-1] / ptlb[0], 1.0),
        at_least("MSLB gains at the largest window", mslb[-1], 1.0),
    ]


def _throughputs(
    name: str, rate: int, gains: Callable[[Ratios], list[Check]], out: Path, *, quick: bool
) -> Result:
    """Results by the end of the arrivals, against a run without adaptation, for four windows."""
    windows = (WINDOWS_S[0], WINDOWS_S[-1]) if quick else WINDOWS_S
    ratios: dict[str, list[float]] = {"ptlb": [], "mslb": []}
    paths: dict[str, list[float]] = {"ptlb": [], "mslb": []}
    rows: list[tuple[Cell, ...]] = []
    choices, differing = [], 0
    for window in windows:
        runs = {strategy: cell(rate, window, strategy, quick=quick) for strategy in ("none", *STRATEGIES)}
        base = _results(runs["none"], quick=quick)
        for strategy in STRATEGIES:
            ratios[strategy].append(_results(runs[strategy], quick=quick) / base)
            paths[strategy].append(runs[strategy].throughput() / runs["none"].throughput())
            differing += runs[strategy].digest != runs["none"].digest
        chosen = NAME_OF[cell(rate, window, "auto", quick=quick).choice]
        rows.append(
            (window, 1.0, *(ratios[w][-1] for w in STRATEGIES), *(paths[w][-1] for w in STRATEGIES), chosen)
        )
        choices.append(choice_check(f"W = {window} s", chosen, {w: paths[w][-1] for w in STRATEGIES}))
    lead = [m / p for m, p in zip(ratios["mslb"], ratios["ptlb"], strict=True)]
    return Result(
        name,
        f"throughput against the window, {rate} rows a second in the paper",
        Table(
            (
                "window (s)",
                "none",
                "PTLB ÷ none",
                "MSLB ÷ none",
                "PTLB, critical path",
                "MSLB, critical path",
                "auto chose",
            ),
            tuple(rows),
        ),
        (
            *gains(ratios),
            at_least("MSLB's lead over PTLB, largest window ÷ smallest", lead[-1] / lead[0], 1.0),
            *choices,
            at_most("runs with other results than without adaptation", float(differing), 0.0),
        ),
        draw(
            Chart(
                "window (s)",
                "throughput ÷ none",
                list(windows),
                {LABELS[n]: v for n, v in ratios.items()},
                {"none": 1.0},
            ),
            out / f"{name}.png",
        ),
    )


def choice_check(where: str, chosen: str, throughput: dict[str, float]) -> Check:
    """The automatic choice is the measured winner, where there is a clear one."""
    best, other = sorted(throughput, key=lambda w: -throughput[w])
    ahead = throughput[best] / throughput[other]
    detail = f"chose {chosen}, {best} is ahead by {ahead - 1:.0%}"
    return Check(f"automatic choice, {where}", chosen == best or ahead < CLEARLY, detail)


def _results(run: Measured, *, quick: bool) -> float:
    """Results by the end of arrivals that the lightest cell, without adaptation, just keeps up with."""
    lightest = cell(RATES[0], WINDOWS_S[0], "none", quick=quick).critical_s
    return float(replay(run, sum(lightest) / len(lightest)).results[-1])


def _ratio(part: Sequence[float], whole: Sequence[float]) -> float:
    """Of the last ones; infinite where nothing was balanced, so that no check holds by it."""
    return part[-1] / whole[-1] if whole[-1] else math.inf


def dcape_fig12(out: Path, *, quick: bool = False) -> Result:
    """How long balancing lasts, in seconds of event time; lemma 2.2 needs enough rows, and so do moves.

    By it a track lasts for a window after the newest row that was joined with an old one, which is as old as
    the window only where rows are joined all the time. Partitions move only where that is worth it: with a
    fifth of these rows none did.
    """
    windows = (WINDOWS_S[0],) if quick else WINDOWS_S
    rows = []
    lengths: dict[str, list[float]] = {"lemma": [], "exact": [], "mslb": []}
    for window in windows:
        load = Load(RATES[1] * SCALE, window, length_s=15 + 2 * window + 18, keys=1_000)
        for name, setting in {
            "lemma": Setting("ptlb", balance_at=5, switch_at=SWITCH_AT, lemma=True),
            "exact": Setting("ptlb", balance_at=5, switch_at=SWITCH_AT),
            "mslb": Setting("mslb", balance_at=5, switch_at=SWITCH_AT),
        }.items():
            run = measure(load, setting)
            # A track by itself; a move of state is done with the batch after it, so that its rounds count.
            batches = max(run.tracks, default=0) if name != "mslb" else _longest_stretch(run.moved)
            lengths[name].append(batches * load.interval_s)
        rows.append((window, *(lengths[n][-1] for n in lengths), max(run.relocation_s[6:])))
    return Result(
        "dcape-fig12",
        "how long a load balancing lasts",
        Table(
            (
                "window (s)",
                "PTLB, lemma 2.2 (s)",
                "PTLB, exact (s)",
                "MSLB, all rounds (s)",
                "CPU time of one (s)",
            ),
            tuple(rows),
        ),
        (
            *(
                between(f"PTLB by lemma 2.2 ÷ W, W = {w} s", v / w, 1.6, 2.4)
                for w, v in zip(windows, lengths["lemma"], strict=True)
            ),
            *(
                between(f"PTLB by exact expiry ÷ W, W = {w} s", v / w, 1.0, 1.6)
                for w, v in zip(windows, lengths["exact"], strict=True)
            ),
            at_most("MSLB ÷ PTLB at the largest window", _ratio(lengths["mslb"], lengths["lemma"]), 0.25),
        ),
        draw(
            Chart("window (s)", "seconds", list(windows), {LABELS[n]: v for n, v in lengths.items()}, {}),
            out / "dcape-fig12.png",
        ),
    )


def _longest_stretch(moved: list[int]) -> int:
    """Most batches in a row after which partitions moved.

    >>> _longest_stretch([0, 3, 1, 0, 2])
    2
    """
    longest = now = 0
    for partitions in moved:
        now = now + 1 if partitions else 0
        longest = max(longest, now)
    return longest


def dcape_fig13(out: Path, *, quick: bool = False) -> Result:
    """Large states and falling rates: parallel track wins."""
    load = replace(falling_load(10 if quick else 250, 60.0), length_s=105.0)
    fallen = round(load.drop_s / load.interval_s)
    switch, balance = fallen + 1, fallen + 3
    runs = {
        strategy: _typical(load, Setting(strategy, balance_at=balance, switch_at=switch), quick=quick)
        for strategy in ("off", *STRATEGIES)
    }
    auto = Setting("auto", balance_at=balance, switch_at=switch, stop_at=balance + 2)
    chosen = NAME_OF[measure(load, auto).choice]
    gain = {w: runs[w].throughput(balance) for w in STRATEGIES}
    interval_s = sum(runs["off"].critical_s) / load.batches
    curves = {name: replay(run, interval_s) for name, run in runs.items()}
    differing = sum(run.digest != runs["off"].digest for run in runs.values())
    return Result(
        "dcape-fig13",
        "large states, falling rates",
        Table(
            ("balancing", "critical path since (s)", "results at the end", "copied (MB)", "rows rebuilt"),
            tuple(
                (
                    name,
                    sum(run.critical_s[balance:]),
                    float(curves[name].results[-1]),
                    run.copied_bytes / 1e6,
                    run.rebuilt_rows,
                )
                for name, run in runs.items()
            ),
        ),
        (
            at_least("throughput since balancing began, PTLB ÷ MSLB", gain["ptlb"] / gain["mslb"], 1.0),
            choice_check("falling rates", chosen, gain),
            at_most("runs with other results than without balancing", float(differing), 0.0),
        ),
        draw(
            Chart(
                "% of the arrivals",
                "results",
                [100 * (i + 1) / load.batches for i in range(load.batches)],
                {LABELS[name]: [float(v) for v in curve.results] for name, curve in curves.items()},
                {},
            ),
            out / "dcape-fig13.png",
        ),
    )
