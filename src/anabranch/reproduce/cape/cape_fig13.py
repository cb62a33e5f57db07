"""cape-fig13 to cape-fig16: intermediate rows and output over time, at low and at high load.

Four runs on the same rows: the old plan, the new one, and the change between them by either strategy. Time is
that of a machine that takes each batch when it has arrived and the batch before is done, and needs for it
what its busiest site needed here: so a batch that takes long delays what comes after it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache
from operator import truediv
from pathlib import Path
from statistics import mean, median

from anabranch.plan.cost.migration_cost import Strategy
from anabranch.reproduce.cape.cape_run import CapeRun, Change, Trace, run_cape
from anabranch.reproduce.cape.cape_streams import HIGH, LOW, NEW_PLAN, Arrivals, Table2
from anabranch.reproduce.report.picture import Chart, draw
from anabranch.reproduce.report.result import Check, Result, Table, at_least, at_most

REPEATS = 2
"""Runs of each, on the same rows: a batch took what it took when nothing else disturbed it."""


@dataclass(frozen=True, slots=True)
class Scale:
    """How a load of the paper is run.

    Attributes
    ----------
    rows
        How many for one of the paper's.
    second
        What a second of the paper is: so that the old plan is too much for one core at high load, and not at
        low load, as in the paper.
    per_window
        Batches per window. The paper's engine takes rows one by one, so that any silence shows; here one
        shows that is long against a batch. At low load, where none should, batches are longer because each
        has a price whatever its rows are.
    """

    column: Table2
    rows: float
    window_s: float
    second: float
    per_window: int


SCALES = {"low": Scale(LOW, 500.0, 1.0, 0.25, 8), "high": Scale(HIGH, 500.0, 4.0, 0.5, 96)}
MS, PT, NEW, OLD = "moving state", "parallel track", "new plan", "old plan"


@dataclass(frozen=True, slots=True)
class Course:
    """The four runs at one load; `start` is the batch after which two of them migrate."""

    traces: dict[str, Trace]
    start: int
    scale: Scale

    @property
    def interval_s(self) -> float:
        return self.scale.window_s * self.scale.second / self.scale.per_window

    @property
    def times(self) -> list[float]:
        """When each batch has arrived, in seconds of the paper."""
        in_paper = self.interval_s / self.scale.second
        return [(n + 1) * in_paper for n in range(len(self.traces[OLD].results))]

    def done(self, name: str) -> list[float]:
        """When each batch is done, in seconds of event time after the first row."""
        clock, found = 0.0, []
        for n, seconds in enumerate(self.traces[name].critical_s):
            clock = max(clock, (n + 1) * self.interval_s) + seconds
            found.append(clock)
        return found

    def silence(self, name: str) -> float:
        """The longest wait for output from the migration on, in seconds."""
        done = self.done(name)
        return max(b - a for a, b in zip(done[self.start :], done[self.start + 1 :], strict=False))

    def settled(self, name: str) -> int:
        """Batches after the migration until intermediate rows are first as few as the new plan has.

        Afterwards those of moving state exceed them once more, for a window: what was recomputed is one
        block, which leaves when its last row does.
        """
        mine, new = self.traces[name].intermediate, self.traces[NEW].intermediate
        later = range(self.start, len(mine))
        return next((n for n in later if mine[n] <= 1.05 * new[n]), len(mine)) - self.start


@cache
def course(level: str, quick: bool) -> Course:
    """Section 6.3: set 1 is low, set 2 is high. The paper migrates after 10 s of 50."""
    scale = SCALES[level]
    interval_us = round(scale.window_s * scale.second * 1e6 / scale.per_window)
    start = 2 * scale.per_window
    batches = start + 3 * scale.per_window
    rows = scale.rows / 10 if quick else scale.rows
    arrivals = Arrivals({0: scale.column.load(rows=rows, second=scale.second)}, interval_us)

    def run(order: str, strategy: Strategy | None = None) -> Trace:
        changes = {start: Change(NEW_PLAN, strategy)} if strategy else {}
        what = CapeRun(arrivals, interval_us * scale.per_window, batches, order=order, changes=changes)
        return undisturbed([run_cape(what) for _ in range(1 if quick else REPEATS)])

    return Course(
        {
            MS: run("abcd", Strategy.MOVING_STATE),
            PT: run("abcd", Strategy.PARALLEL_TRACK),
            NEW: run("bcda"),
            OLD: run("abcd"),
        },
        start,
        scale,
    )


def undisturbed(traces: Sequence[Trace]) -> Trace:
    """The first of several equal runs, each batch with the least seconds that it took."""
    return replace(
        traces[0],
        critical_s=[min(found) for found in zip(*(t.critical_s for t in traces), strict=True)],
        rebuild_s=[min(found) for found in zip(*(t.rebuild_s for t in traces), strict=True)],
    )


def cape_fig13(out: Path, *, quick: bool = False) -> Result:
    """Intermediate rows, low load."""
    return _intermediate("cape-fig13", "low", out, quick=quick)


def cape_fig14(out: Path, *, quick: bool = False) -> Result:
    """Output, low load."""
    return _output("cape-fig14", "low", out, quick=quick)


def cape_fig15(out: Path, *, quick: bool = False) -> Result:
    """Intermediate rows, high load."""
    return _intermediate("cape-fig15", "high", out, quick=quick)


def cape_fig16(out: Path, *, quick: bool = False) -> Result:
    """Output, high load."""
    return _output("cape-fig16", "high", out, quick=quick)


def _intermediate(name: str, level: str, out: Path, *, quick: bool) -> Result:
    found = course(level, quick=quick)
    at, per_window = found.start, found.scale.per_window
    last = range(len(found.times) - per_window, len(found.times))
    ends = {n: mean(t.intermediate[i] for i in last) for n, t in found.traces.items()}
    table = Table(
        (
            "run",
            "rows before the migration",
            "most during it",
            "rows at the end",
            "batches until as few as new",
        ),
        tuple(
            (
                n,
                t.intermediate[at],
                max(t.intermediate[at + 1 : at + 1 + per_window]),
                ends[n],
                "–" if n in (NEW, OLD) else found.settled(n),
            )
            for n, t in found.traces.items()
        ),
    )
    chart = Chart(
        "s of the paper",
        "rows in intermediate states",
        found.times,
        {n: t.intermediate for n, t in found.traces.items()},
        {},
    )
    checks = [
        at_most(
            f"{n}: intermediate rows at the end, off the new plan's by", abs(ends[n] / ends[NEW] - 1), 0.05
        )
        for n in (MS, PT)
    ]
    checks.append(at_least("old plan ÷ new plan, rows at the end", ends[OLD] / ends[NEW], 1.5))
    checks.append(
        at_least(
            "batches by which moving state is down to the new plan's rows earlier",
            float(found.settled(PT) - found.settled(MS)),
            0.0,
        )
    )
    return Result(
        name, _title("intermediate rows", level), table, tuple(checks), draw(chart, out / f"{name}.png")
    )


def _output(name: str, level: str, out: Path, *, quick: bool) -> Result:
    found = course(level, quick=quick)
    at, traces, per_window = found.start, found.traces, found.scale.per_window
    after = slice(at + 1, at + 1 + per_window)
    table = Table(
        (
            "run",
            "load at the end",
            "results",
            "longest wait for output after the migration (s)",
            "of it, rebuilding (s)",
            "longest batch ÷ the same of the new plan",
            "delay at the end (s)",
            "batches without output",
        ),
        tuple(
            (
                n,
                mean(t.critical_s[-per_window:]) / found.interval_s,
                sum(t.results),
                found.silence(n),
                max(t.rebuild_s),
                max(map(truediv, t.critical_s[after], traces[NEW].critical_s[after])),
                found.done(n)[-1] - len(t.results) * found.interval_s,
                sum(r == 0 for r in t.results[at:]),
            )
            for n, t in traces.items()
        ),
    )
    chart = Chart(
        "s of the paper",
        "results per second",
        found.times,
        {n: _rate(found, n) for n in traces},
        {},
    )
    checks = _output_checks(found, level, quick=quick)
    return Result(name, _title("output", level), table, checks, draw(chart, out / f"{name}.png"))


def _output_checks(found: Course, level: str, *, quick: bool) -> tuple[Check, ...]:
    at, traces, per_window = found.start, found.traces, found.scale.per_window
    usual = median(b - a for a, b in zip(found.done(OLD)[:at], found.done(OLD)[1:at], strict=False))
    silent = sum(r == 0 for r, old in zip(traces[PT].results, traces[PT].running_old, strict=True) if old)
    after = slice(at + 1, at + 1 + per_window)
    longest = {n: max(t.critical_s[after]) for n, t in traces.items()}
    checks = [
        Check(
            "all four give the same number of results",
            len({sum(t.results) for t in traces.values()}) == 1,
            ", ".join(f"{sum(t.results):,}" for t in traces.values()),
        ),
        at_most("batches without output while the parallel track ran", float(silent), 0.0),
        at_most(
            "parallel track: longest batch while both tracks ran ÷ longest of old and new plan together",
            longest[PT] / (longest[OLD] + longest[NEW]),
            1.25,
        ),
    ]
    checks += [
        at_most(f"{n}: seconds per batch at the end, off the new plan's by", _off(found, n), 0.15)
        for n in (MS, PT)
    ]
    load = mean(traces[OLD].critical_s[-per_window:]) / found.interval_s
    if not quick:
        wanted = at_least if level == "high" else at_most
        checks.append(wanted(f"the condition: load of the old plan, {level}", load, 1.0))
    if level == "high":  # "noticeable"; at low load "short enough to be neglected" (section 6.3)
        before = median(traces[MS].critical_s[at - per_window : at])
        checks.append(
            at_least("moving state: the batch that rebuilds ÷ a batch before", longest[MS] / before, 1.5)
        )
        # Not against its longest: merging blocks takes longer than that, with the old plan alone, too.
        both = median(traces[PT].critical_s[after])
        checks.append(
            at_least("the batch that rebuilds ÷ a batch while both tracks ran", longest[MS] / both, 1.0)
        )
    else:
        checks.append(at_most("moving state: silence, in usual batches", found.silence(MS) / usual, 3.0))
    return tuple(checks)


def _off(found: Course, name: str) -> float:
    """Medians, because a few milliseconds of a shared machine would decide otherwise."""
    last = found.scale.per_window
    mine, new = (median(found.traces[n].critical_s[-last:]) for n in (name, NEW))
    return abs(mine / new - 1)


def _rate(found: Course, name: str) -> list[float]:
    """Results by the time they came out, per interval and second."""
    rates = [0.0] * len(found.times)
    for done, results in zip(found.done(name), found.traces[name].results, strict=True):
        slot = int(done / found.interval_s) - 1
        if slot < len(rates):
            rates[slot] += results / found.interval_s
    return rates


def _title(what: str, level: str) -> str:
    scale = SCALES[level]
    return (
        f"{what} over time, {level} load (W = {scale.window_s:g} s of the paper); engine without a JVM "
        f"(LocalRun), rows × {scale.rows:g}, a second of the paper is {scale.second:g} s, "
        f"batches of W/{scale.per_window}"
    )
