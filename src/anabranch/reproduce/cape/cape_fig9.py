"""cape-fig9: how long a parallel track lasts, by the paper's purge rule and by ours, against the window."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from anabranch.plan.cost.migration_cost import PurgeRule, Strategy
from anabranch.reproduce.cape.cape_run import CapeRun, Change, run_cape
from anabranch.reproduce.cape.cape_streams import NEW_PLAN, SET_1, Arrivals, Table2
from anabranch.reproduce.report.picture import Chart, draw
from anabranch.reproduce.report.result import Check, Result, Table, at_least, between

PER_WINDOW = 16
"""Batches per window: what is measured is a whole number of them."""
ROWS = 50.0
LATENESS_S = 0.5


def cape_fig9(out: Path, *, quick: bool = False) -> Result:
    """Set 1 of table 2: W varies. Four streams, and two for the tree of one level."""
    windows = (1.0, 2.0) if quick else (1.0, 2.0, 3.0, 4.0, 5.0)
    per_window = PER_WINDOW // 2 if quick else PER_WINDOW
    lemma, exact = PurgeRule.LEMMA_2_2, PurgeRule.EXACT
    paper = [track_seconds(SET_1, w, rule=lemma, per_window=per_window) for w in windows]
    single = [track_seconds(SET_1, w, rule=lemma, per_window=per_window, order="ab") for w in windows]
    ours = [track_seconds(SET_1, w, rule=exact, per_window=per_window) for w in windows]
    late = [
        track_seconds(SET_1, w, rule=exact, per_window=per_window, lateness_s=LATENESS_S) for w in windows
    ]
    batch = [w / per_window for w in windows]
    slope = float(np.polyfit(windows, paper, 1)[0])
    chart = Chart(
        "W (s)",
        "duration (s of event time)",
        windows,
        {
            "lemma 2.2": paper,
            "lemma 2.2, one join": single,
            "exact": ours,
            f"exact, L = {LATENESS_S} s": late,
        },
        {},
    )
    return Result(
        "cape-fig9",
        "duration of a parallel track; engine without a JVM (LocalRun), set 1, rows × 50",
        Table(
            (
                "W (s)",
                "one batch (s)",
                "lemma 2.2 (s)",
                "lemma 2.2, one join (s)",
                "exact (s)",
                f"exact, lateness {LATENESS_S} s (s)",
            ),
            tuple(zip(windows, batch, paper, single, ours, late, strict=True)),
        ),
        (
            _all_within("lemma 2.2: 2W, to a batch and 5 %", paper, [2 * w for w in windows], batch),
            _all_within("lemma 2.2, a single join: W, to a batch and 5 %", single, windows, batch),
            between("lemma 2.2: seconds per second of W", slope, 1.9, 2.1),
            at_least("lemma 2.2: linear in W, r²", _r2(windows, paper), 0.99),
            _all_within("exact: W, to a batch and 5 %", ours, windows, batch),
            _all_within(
                "exact: W + lateness, to a batch and 5 %", late, [w + LATENESS_S for w in windows], batch
            ),
        ),
        draw(chart, out / "cape-fig9.png"),
    )


def track_seconds(
    column: Table2,
    window_s: float,
    *,
    rule: PurgeRule,
    per_window: int,
    order: str = "abcd",
    lateness_s: float = 0.0,
    rows: float = ROWS,
) -> float:
    """Seconds of event time from a migration by parallel track to the end of the old one."""
    interval_us = round(window_s * 1e6 / per_window)
    start = per_window + per_window // 2
    longest = round((2 * window_s + lateness_s) * 1e6 / interval_us) + 4
    plan = NEW_PLAN if order == "abcd" else f"({order[1]} {order[0]})"
    trace = run_cape(
        CapeRun(
            Arrivals({0: column.load(rows=rows, second=1.0)}, interval_us),
            round(window_s * 1e6),
            start + longest,
            order=order,
            changes={start: Change(plan, Strategy.PARALLEL_TRACK)},
            lateness_us=round(lateness_s * 1e6),
            rule=rule,
        )
    )
    assert not trace.running_old[-1], "the track has not ended"
    return trace.track_batches() * interval_us / 1e6


def _all_within(
    claim: str, found: list[float], due: list[float] | tuple[float, ...], batch: list[float]
) -> Check:
    """Each within a batch, the unit in which a track can end, and 5 %."""
    off = [max(0.0, abs(f - d) - b) / d for f, d, b in zip(found, due, batch, strict=True)]
    return Check(claim, max(off) <= 0.05, f"beyond a batch, at most {max(off):.2%} off")


def _r2(x: tuple[float, ...], y: list[float]) -> float:
    return float(np.corrcoef(x, y)[0, 1] ** 2)
