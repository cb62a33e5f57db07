"""cape-fig12: moving state against parallel track, by how long they last and by what they cost.

The paper compares how long either lasts: T_MS is CPU time, because nothing else happens meanwhile, and
T_PT is time of the streams, 2W. We ask besides what either costs beyond a run that had the new plan
always, in CPU seconds: that is what `choose` minimises.
"""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from statistics import median

from anabranch.plan.cost.migration_cost import Preference, PurgeRule, Strategy, choose
from anabranch.reproduce.cape.cape_run import CapeRun, Change, Trace, run_cape
from anabranch.reproduce.cape.cape_spark import run_on_spark, write_arrivals
from anabranch.reproduce.cape.cape_streams import NEW_PLAN, OLD_PLAN, SET_1, SET_3, Arrivals, Load
from anabranch.reproduce.report.picture import Chart, draw
from anabranch.reproduce.report.result import Check, Result, Spread, Table, at_most, between

SECOND = 0.05
"""T_MS does not depend on it, T_PT is proportional to it: chosen so that they cross inside the sweep
(docs/experiments/cape.md)."""
ROWS = 20.0
GRID_SECOND = 0.2
"""Of set 3 in the grid, where CPU time is compared with CPU time."""
REPEATS = 3
"""Turns of each cell's three sides, each on other rows."""
PER_WINDOW = 10
START = PER_WINDOW + PER_WINDOW // 2
"""Batch after which the plan changes."""
FALL = 0.05
"""Rates after they have fallen, as a share of those before."""
TOLERATED = 0.05
ON_SPARK = 2.5
"""The window that is also run on Spark."""


Row = tuple[str | int | float | Spread, ...]
COLUMNS = (
    "migration",
    "moving state (s)",
    "track, lemma 2.2 (s)",
    "track, exact (s)",
    "winner",
    "predicted moving (s)",
    "predicted track (s)",
    "choice",
)


@dataclass(frozen=True, slots=True)
class Cell:
    """One migration, by both strategies; seconds beyond a run that had the new plan always.

    `moving` and `parallel` are spreads over `REPEATS` turns.
    """

    name: str
    window_s: float
    moving: Spread
    parallel: Spread
    new_plan_s: float
    """Seconds of that run over the same batches."""
    predicted_moving: float
    predicted_parallel: float
    chosen: Strategy
    measurable: bool
    """Whether the same strategy was the cheaper one in every turn."""

    @property
    def regret(self) -> float:
        """How much longer the batches took with the chosen one than with the other; 0 for the winner."""
        moving, parallel = self.moving.median, self.parallel.median
        mine, other = (moving, parallel) if self.chosen is Strategy.MOVING_STATE else (parallel, moving)
        return max(0.0, (mine - other) / (self.new_plan_s + other))

    @property
    def row(self) -> Row:
        return (
            f"{self.name}, W = {self.window_s:g} s",
            self.moving,
            "–",
            self.parallel,
            _winner(self.moving.median, self.parallel.median),
            self.predicted_moving,
            self.predicted_parallel,
            self.told_choice,
        )

    @property
    def told_choice(self) -> str:
        if not self.measurable:
            return f"{self.chosen}, a tie"
        return f"{self.chosen} (+{self.regret:.0%})" if self.regret else str(self.chosen)


def cape_fig12(out: Path, *, quick: bool = False) -> Result:
    """Set 3 of table 2: W varies; and a grid of migrations for the choice."""
    windows, seeds = ((0.5, 3.5), 1) if quick else ((0.5, 1.0, 1.5, 2.0, 2.5, 3.0, 3.5), REPEATS)
    moving = [Spread.of(_moving_state(w, seed) for seed in range(seeds)) for w in windows]
    tracks = [_track(w) for w in windows]
    cells = grid(quick=quick)
    paper, ours = [t[PurgeRule.LEMMA_2_2] for t in tracks], [t[PurgeRule.EXACT] for t in tracks]
    medians = [m.median for m in moving]
    rows = [
        _lasting(f"set 3, W = {w:g} s", m, p, e)
        for w, m, p, e in zip(windows, moving, paper, ours, strict=True)
    ]
    rows += [cell.row for cell in cells]
    checks = _checks(medians, paper, cells)
    if not quick:
        at = windows.index(ON_SPARK)
        spark_s, track_s = _on_spark(ON_SPARK)
        rows.append(_lasting(f"set 3, W = {ON_SPARK:g} s, on Spark", Spread.of([spark_s]), None, track_s))
        checks += [
            # Spark has the rows of the first seed: with others a state can be four times as large.
            between("moving state, Spark ÷ LocalRun, same rows", spark_s / moving[at].values[0], 0.5, 2.0),
            between("parallel track, Spark ÷ LocalRun", track_s / ours[at], 0.9, 1.1),
        ]
    chart = Chart(
        "W (s of the paper)",
        "seconds",
        windows,
        {"moving state (CPU)": medians, "track, lemma 2.2": paper, "track, exact": ours},
        {},
    )
    return Result(
        "cape-fig12",
        f"both strategies; engine without a JVM (LocalRun); set 3 with rows × {ROWS:g}, a second of the "
        f"paper is {SECOND:g} s; first rows: how long it lasts, others: CPU seconds beyond the new plan's",
        Table(COLUMNS, tuple(rows)),
        tuple(checks),
        draw(chart, out / "cape-fig12.png"),
    )


def _lasting(name: str, moving: Spread, paper: float | None, exact: float) -> Row:
    """How long either lasts; on Spark there is no track by the paper's rule."""
    winner = _winner(moving.median, exact if paper is None else paper)
    return name, moving, "–" if paper is None else paper, exact, winner, "–", "–", "–"


def _checks(medians: list[float], paper: list[float], cells: list[Cell]) -> list[Check]:
    told_apart = [c for c in cells if c.measurable]
    wrong = sum(c.regret > TOLERATED for c in told_apart)
    return [
        Check(
            "moving state is shorter for the smallest W",
            medians[0] < paper[0],
            f"{medians[0]:.3g} s against {paper[0]:.3g} s",
        ),
        Check(
            "parallel track is shorter for the largest W",
            medians[-1] > paper[-1],
            f"{paper[-1]:.3g} s against {medians[-1]:.3g} s",
        ),
        Check(
            "one cross-over: moving state never wins again after it has lost",
            _crossings(medians, paper) == 1,
            f"{_crossings(medians, paper)} changes of the winner",
        ),
        at_most(
            f"cells where the choice loses by more than 5 %, of {len(told_apart)} (of {len(cells)}) in which "
            "the same strategy is the cheaper one in every turn",
            float(wrong),
            0.0,
        ),
    ]


def grid(*, quick: bool) -> list[Cell]:
    """Windows, loads, directions, and rates that have fallen just before."""
    sets = [
        ("set 1", SET_1.load(rows=1000, second=1.0), 1.0, (1.0, 4.0)),
        ("set 3", SET_3.load(rows=ROWS, second=GRID_SECOND), GRID_SECOND, (1.0,)),
    ]
    cells = []
    for name, load, second, windows in sets[:1] if quick else sets:
        for window in windows[:1] if quick else windows:
            for old, new in ((OLD_PLAN, NEW_PLAN), (NEW_PLAN, OLD_PLAN)):
                for fall in (1.0, FALL):
                    told = f"{name}, {'ab… → bc…' if old == OLD_PLAN else 'bc… → ab…'}"
                    told += "" if fall == 1 else f", rates × {fall:g}"
                    cells.append(_cell(told, load, window, second, fall, old, new, 1 if quick else REPEATS))
    return cells


def _cell(
    name: str, load: Load, window_s: float, second: float, fall: float, old: str, new: str, turns: int
) -> Cell:
    """Run it by either strategy and with the new plan from the start; compare from there until the end."""
    # Where rows are few, a batch may have none of a stream, and its watermark, with it the track, waits.
    start, after = 2 * PER_WINDOW, PER_WINDOW + 8
    interval_us = round(window_s * second * 1e6 / PER_WINDOW)
    loads = {0: load, start - PER_WINDOW // 2: load.faster(fall)}
    extra: dict[Strategy, list[float]] = {s: [] for s in Strategy}
    known, bases = None, []
    for seed in range(turns):
        arrivals = Arrivals(loads, interval_us, seed)

        def run(order: str, changes: dict[int, Change], arrivals: Arrivals = arrivals) -> Trace:
            return run_cape(
                CapeRun(arrivals, interval_us * PER_WINDOW, start + 1 + after, order=order, changes=changes)
            )

        base = sum(run(_order(new), {}).critical_s[start + 1 :])
        bases.append(base)
        for strategy in Strategy:
            trace = run(_order(old), {start: Change(new, strategy)})
            assert not trace.running_old[-1], "the track has not ended"
            extra[strategy].append(sum(trace.critical_s[start + 1 :]) - base)
            known = known or trace.known[start]
    assert known is not None
    moving, parallel = known.predict(old, new)
    chosen = choose(moving, parallel, Preference.AUTO)
    assert chosen is not None
    return Cell(
        name,
        window_s,
        Spread.of(extra[Strategy.MOVING_STATE]),
        Spread.of(extra[Strategy.PARALLEL_TRACK]),
        median(bases),
        moving.cost_s,
        parallel.cost_s,
        chosen.strategy,
        len({m < p for m, p in zip(*extra.values(), strict=True)}) == 1,
    )


def _order(plan: str) -> str:
    return plan.replace("(", "").replace(")", "").replace(" ", "")


def _moving_state(window_s: float, seed: int) -> float:
    """How long moving state lasts in set 3: the CPU seconds of its batch beyond those of the next ones."""
    trace = run_cape(
        CapeRun(
            _arrivals(window_s, seed),
            round(window_s * SECOND * 1e6),
            START + 2 + PER_WINDOW // 2,
            changes={START: Change(NEW_PLAN, Strategy.MOVING_STATE)},
        )
    )
    return _beyond(trace.critical_s)


def _arrivals(window_s: float, seed: int = 0) -> Arrivals:
    interval_us = round(window_s * SECOND * 1e6 / PER_WINDOW)
    return Arrivals({0: SET_3.load(rows=ROWS, second=SECOND)}, interval_us, seed)


def _beyond(critical_s: Sequence[float]) -> float:
    """What the batch after a migration takes that those after it do not.

    That is recomputing the states, and sorting them for the first rows that probe them.
    """
    return critical_s[START + 1] - median(critical_s[START + 2 : START + 2 + PER_WINDOW // 2])


def _track(window_s: float) -> dict[PurgeRule, float]:
    """How long a parallel track lasts in set 3, in seconds of ours, by either rule."""
    interval_us = round(window_s * SECOND * 1e6 / PER_WINDOW)
    start = PER_WINDOW + 2
    found = {}
    for rule in PurgeRule:
        trace = run_cape(
            CapeRun(
                # How many rows there are does not change how long it lasts (figure 11): fewer of them.
                Arrivals({0: SET_3.load(rows=1.0, second=SECOND)}, interval_us),
                interval_us * PER_WINDOW,
                start + 2 * PER_WINDOW + 4,
                changes={start: Change(NEW_PLAN, Strategy.PARALLEL_TRACK)},
                rule=rule,
            )
        )
        assert not trace.running_old[-1], "the track has not ended"
        found[rule] = trace.track_batches() * interval_us / 1e6
    return found


def _on_spark(window_s: float) -> tuple[float, float]:
    """Both strategies on Spark: how long moving state lasts, in CPU seconds, and how long the track."""
    interval_us = round(window_s * SECOND * 1e6 / PER_WINDOW)
    traces = {}
    with tempfile.TemporaryDirectory() as scratch:
        root = Path(scratch)
        write_arrivals(root / "data", _arrivals(window_s), START + PER_WINDOW + 4)
        # Moving state twice: the first time, workers wait for the kernel to give them memory for the states.
        for turn, strategy in enumerate((Strategy.MOVING_STATE, *Strategy)):
            traces[strategy] = run_on_spark(
                root / "data",
                root / str(turn),
                window_us=interval_us * PER_WINDOW,
                changes={START: Change(NEW_PLAN, strategy)},
                sites=1,
            )
    moving, parallel = traces[Strategy.MOVING_STATE], traces[Strategy.PARALLEL_TRACK]
    (began,), (ended,) = parallel.batches_of("track_began"), parallel.batches_of("track_ended")
    return _beyond(moving.critical_s), (ended - began) * interval_us / 1e6


def _winner(moving: float, parallel: float) -> str:
    return "moving state" if moving < parallel else "parallel track"


def _crossings(moving: list[float], parallel: list[float]) -> int:
    wins = [m < p for m, p in zip(moving, parallel, strict=True)]
    return sum(a != b for a, b in pairwise(wins))
