"""cape-fig10 and cape-fig11: what moving state takes, against the window and against one stream's rate."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import numpy as np

from anabranch.plan.cost.migration_cost import PurgeRule, Strategy
from anabranch.reproduce.cape.cape_fig9 import track_seconds
from anabranch.reproduce.cape.cape_run import CapeRun, Change, run_cape
from anabranch.reproduce.cape.cape_streams import NEW_PLAN, OLD_PLAN, SET_1, SET_2, Arrivals, Table2
from anabranch.reproduce.report.picture import Chart, draw
from anabranch.reproduce.report.result import Result, Spread, Table, at_least, at_most

PER_WINDOW = 10
FACTOR = 2.0
"""How far a prediction may be from what is measured."""


def cape_fig10(out: Path, *, quick: bool = False) -> Result:
    """Set 1 of table 2: W varies."""
    windows, rows, seeds = (
        ((1.0, 3.0, 6.0), 300.0, 1) if quick else ((1.0, 2.0, 3.0, 4.0, 5.0, 6.0), 4000.0, 3)
    )
    found = [moving_state(SET_1, w, rows=rows, seeds=seeds) for w in windows]
    measured = [m.median for m, _ in found]
    predicted = [p.median for _, p in found]
    # Equation 8 has terms in W² and W³; a batch of any size also costs something.
    terms = np.vstack([np.ones(len(windows)), np.square(windows), np.power(windows, 3)]).T
    seen = np.array(measured)
    fitted = terms @ np.linalg.lstsq(terms, seen, rcond=None)[0]
    r2 = 1 - float(np.square(fitted - seen).sum() / np.square(seen - seen.mean()).sum())
    upper = [i for i, w in enumerate(windows) if w >= max(windows) / 2]
    exponent = float(
        np.polyfit(np.log([windows[i] for i in upper]), np.log([measured[i] for i in upper]), 1)[0]
    )
    apart = max(max(p / m, m / p) for m, p in zip(measured, predicted, strict=True))
    chart = Chart(
        "W (s)",
        "CPU seconds",
        windows,
        {"measured": measured, "predicted": predicted, "a + b W² + c W³": list(map(float, fitted))},
        {},
    )
    return Result(
        "cape-fig10",
        f"CPU of recomputing states; engine without a JVM (LocalRun), set 1, rows × {rows:.0f}",
        Table(
            ("W (s)", "measured (s)", "predicted (s)", "predicted ÷ measured"),
            tuple((w, m, p, p.median / m.median) for w, (m, p) in zip(windows, found, strict=True)),
        ),
        (
            at_least(f"exponent of W, from W = {max(windows) / 2:g} s on", exponent, 1.5),
            at_least("r² of a + b W² + c W³", r2, 0.98),
            at_most("predicted and measured apart, by a factor of", apart, FACTOR),
        ),
        draw(chart, out / "cape-fig10.png"),
    )


def cape_fig11(out: Path, *, quick: bool = False) -> Result:
    """Set 2 of table 2: λ_B varies, W = 1 s."""
    every_ms, rows, seeds = ((100.0, 12.5), 1000.0, 1) if quick else ((100.0, 50.0, 25.0, 12.5), 4000.0, 3)
    columns = [SET_2.with_b_every(ms) for ms in every_ms]
    rates = [1000 / ms for ms in every_ms]
    moving = [moving_state(column, 1.0, rows=rows, seeds=seeds) for column in columns]
    per_window = 8 if quick else 16
    paper = [track_seconds(c, 1.0, rule=PurgeRule.LEMMA_2_2, per_window=per_window) for c in columns]
    ours = [track_seconds(c, 1.0, rule=PurgeRule.EXACT, per_window=per_window) for c in columns]
    measured = [m.median for m, _ in moving]
    grown = measured[-1] / measured[0]
    steady = max(max(d) - min(d) for d in (paper, ours)) * per_window
    chart = Chart(
        "λ_B (rows per second of the paper)",
        "seconds",
        rates,
        {"moving state (CPU)": measured, "parallel track, lemma 2.2": paper, "parallel track, exact": ours},
        {},
        log_x=True,
    )
    return Result(
        "cape-fig11",
        f"λ_B; engine without a JVM (LocalRun), set 2, W = 1 s, rows × {rows:.0f} (tracks × 50)",
        Table(
            ("λ_B", "moving state (CPU s)", "predicted (s)", "track, lemma 2.2 (s)", "track, exact (s)"),
            tuple((r, m, p, t, e) for r, (m, p), t, e in zip(rates, moving, paper, ours, strict=True)),
        ),
        (
            at_least("moving state, at 8 times λ_B ÷ at the least", grown, 2.0),
            at_least(
                "moving state, least growth from one λ_B to the next",
                min(b / a for a, b in pairwise(measured)),
                1.0,
            ),
            at_most("parallel track, largest difference in batches", steady, 1.0),
        ),
        draw(chart, out / "cape-fig11.png"),
    )


def moving_state(column: Table2, window_s: float, *, rows: float, seeds: int) -> tuple[Spread, Spread]:
    """CPU seconds of recomputing the states of the new plan: measured, and predicted just before."""
    measured, predicted = [], []
    start = PER_WINDOW + PER_WINDOW // 2
    for seed in range(seeds):
        interval_us = round(window_s * 1e6 / PER_WINDOW)
        trace = run_cape(
            CapeRun(
                Arrivals({0: column.load(rows=rows, second=1.0)}, interval_us, seed),
                interval_us * PER_WINDOW,
                start + 2,
                changes={start: Change(NEW_PLAN, Strategy.MOVING_STATE)},
            )
        )
        measured.append(trace.rebuild_s[start + 1])
        predicted.append(trace.known[start].predict(OLD_PLAN, NEW_PLAN)[0].processing_s)
    return Spread.of(measured), Spread.of(predicted)
