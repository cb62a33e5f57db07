"""The demo's last part: a join whose load shifts while it runs, with and without adaptation."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

from anabranch.adapt.events import EventKind
from anabranch.cli.demo.demo_check import WrongResults
from anabranch.cli.demo.section import Sections
from anabranch.cli.demo.shift_picture import shift_picture
from anabranch.cli.screen.figures import spark_line

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from anabranch.adapt.events import Event
    from anabranch.workloads.uniform import Workload

SITES = 8
WINDOW = 4
"""Batches."""
WARM_UP_SHARE = 15
"""One of so many rows is enough to compile what the queries need."""


@dataclass(frozen=True, slots=True)
class _Shifted:
    """One run: milliseconds of the busiest site by batch, what was decided, where the results are."""

    busiest_ms: list[float]
    events: Sequence[Event]
    out: Path
    checkpoint: Path

    @property
    def at_the_end_ms(self) -> float:
        return median(self.busiest_ms[-len(self.busiest_ms) // 4 :])


def show_shift(
    sections: Sections, spark: SparkSession, folder: Path, *, rows: int, batches: int
) -> tuple[Path, Path]:
    """Run the join twice and tell what adapting has changed, and what it has not.

    Returns
    -------
    tuple[Path, Path]
        The picture, and the checkpoint of the run that adapted.
    """
    from anabranch.bench.same_results import difference
    from anabranch.workloads.crowded import turning_streams

    turn = batches // 3
    sections.begin("When the load shifts", _PROBLEMS.format(sites=SITES, turn=turn, bad=turn + WINDOW))
    data = folder / "shift" / "in"
    work = turning_streams(data, batches=batches, rows_per_batch=rows, turn_at=turn, window=WINDOW)
    with sections.doing("Warming up on a few rows"):
        _warm_up(spark, folder / "shift" / "warm-up", rows=rows // WARM_UP_SHARE)
    with sections.doing("As started: nothing may change"):
        fixed = _run(spark, work, folder / "shift" / "fixed", rebalance="off", migration="off")
    with sections.doing("Adapting"):
        adapting = _run(spark, work, folder / "shift" / "adapting")
    for name, columns in (("trios", ("k", "a_id", "b_id", "c_id")), ("near", ("k", "a_id", "d_id"))):
        unequal = difference(adapting.out / name, fixed.out / name, columns)
        if unequal is not None:
            raise WrongResults(unequal)
    _draw(sections, fixed, adapting, turn)
    _answers(sections, adapting.events, turn)
    ratio = fixed.at_the_end_ms / adapting.at_the_end_ms
    sections.say(
        f"In the end the busiest site has {ratio:.1f} times less to do; [green]the results are the same[/]."
    )
    picture = folder / "shift.svg"
    shift_picture(
        picture,
        {"as started": fixed.busiest_ms[1:], "adapting": adapting.busiest_ms[1:]},
        {turn: "1: other keys are busy", turn + WINDOW: "2: the join order is bad"},
        first=1,
        title="Time of the busiest site in each batch: two shifts, two answers",
    )
    return picture, adapting.checkpoint


_PROBLEMS = """\
Joins of two and of three streams on {sites} sites, twice: as started, and adapting. Two things go wrong:
1  At batch {turn} other keys become the busy ones. One site has too much to do. The answer: balancing.
2  From batch {bad} on, the join order of before makes many rows for nothing. The answer: another plan."""
_TRIOS = """\
SELECT a.k, a.id AS a_id, b.id AS b_id, c.id AS c_id
FROM a [RANGE {window} MICROSECONDS], b [RANGE {window} MICROSECONDS], c [RANGE {window} MICROSECONDS]
WHERE a.k = b.k AND b.k = c.k"""
_NEAR = """\
SELECT a.k, a.id AS a_id, d.id AS d_id
FROM a [RANGE {window} MICROSECONDS], d [RANGE {window} MICROSECONDS]
WHERE a.k = d.k AND abs(a.x - d.x) < 0.0001"""


def _warm_up(spark: SparkSession, scratch: Path, *, rows: int) -> None:
    """Run the same queries on little: what is compiled for the first time would be told as time of a site."""
    from anabranch.workloads.crowded import turning_streams

    work = turning_streams(
        scratch / "in", batches=2 * WINDOW, rows_per_batch=max(rows, 100), turn_at=2, window=WINDOW
    )
    _run(spark, work, scratch)


def _run(spark: SparkSession, work: Workload, scratch: Path, **settings: Any) -> _Shifted:
    from anabranch.bench.joins.anabranch_join import add_streams
    from anabranch.engine.sinks.parquet_sink import ParquetSink
    from anabranch.spark.session import Session

    # Rows that wait a batch would blur what the two answers do.
    session = Session(spark, scratch / "checkpoint", sites=SITES, skew_buffer_rows=0, **settings)
    add_streams(session, spark, work)
    for name, text in (("trios", _TRIOS), ("near", _NEAR)):
        sink = ParquetSink(scratch / "out" / name)
        session.query(name, text.format(window=WINDOW * work.interval_us), sink)
    run = session.start(availableNow=True)
    run.awaitTermination()
    busiest = [p.critical_path_ms for p in run.recentProgress if not p.step]
    return _Shifted(busiest, run.events, scratch / "out", scratch / "checkpoint")


def _draw(sections: Sections, fixed: _Shifted, adapting: _Shifted, turn: int) -> None:
    """The time of the busiest site as bars, with the shifts above."""
    # The first batch is cold, and left out.
    marks = "".join(
        "1" if n == turn - 1 else "2" if n == turn + WINDOW - 1 else " "
        for n in range(len(fixed.busiest_ms) - 1)
    )
    sections.say(f"[dim]{'shift':<12}[/]{marks}")
    top = max(fixed.busiest_ms[1:])
    for name, run in (("as started", fixed), ("adapting", adapting)):
        line = spark_line([*run.busiest_ms[1:], top])[:-1]
        sections.say(f"{name:<12}{line}  busiest site, {run.at_the_end_ms:.0f} ms in the end")


def _answers(sections: Sections, events: Sequence[Event], turn: int) -> None:
    """What was decided about each of the two problems, in a line each."""
    moved = [e for e in events if e.kind is EventKind.REBALANCED and e.batch >= turn]
    if not moved:
        sections.say(f"1  nothing was moved: {_why_not(events)}")
    else:
        partitions = sum(int(e.data["moves"]) for e in moved)
        sections.say(
            f"1  balanced from batch {moved[0].batch} on: {partitions} partitions moved in "
            f"{len(moved)} round{'s' if len(moved) > 1 else ''}; the first: {moved[0].message}"
        )
    changed = [e for e in events if e.kind is EventKind.PLAN_CHANGED and e.batch >= turn]
    if not changed:
        sections.say("2  no other plan was taken: on inputs as small as these there was nothing to gain")
    else:
        first, sites = changed[0].data, len({e.data["site"] for e in changed})
        sections.say(
            f"2  another plan from batch {changed[0].batch} on, at {sites} of {SITES} sites: "
            f"{first['old']} → {first['new']}"
        )


def _why_not(events: Sequence[Event]) -> str:
    """Why no partitions moved, as the session saw it last."""
    told = [e.message for e in events if e.kind is EventKind.LEFT_ALONE]
    return told[-1] if told else "the sites were busy alike"
