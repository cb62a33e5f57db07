"""Late rows: refused by queries that keep state, delivered by those that keep none, told in numbers."""

from __future__ import annotations

from itertools import permutations
from pathlib import Path

import pyarrow as pa
import pytest

from anabranch.engine.local_driver import LocalRun
from anabranch.engine.settings import Settings
from anabranch.engine.step.batch_loop import BatchSummary
from anabranch.state.paths import DEAD_LETTERS
from tests.engine.nasty_runs import START, bind, check, rows, running, stream
from tests.support.storages import stored_rows

A, B = stream("a"), stream("b", lateness_us=5)
PLAIN = "SELECT id, ts FROM a WHERE v >= 0"
PAIRS = "SELECT x.id AS x, y.id AS y FROM a [RANGE 9 MICROSECONDS] x, a [NOW] y WHERE x.k = y.k"
COUNTS = "SELECT k, COUNT(*) AS n FROM a [RANGE 9 MICROSECONDS] GROUP BY k"


def letters(run: LocalRun) -> list[tuple[str, str, int]]:
    found = stored_rows(run.storage, DEAD_LETTERS)
    return [(letter["stream"], letter["reason"], letter["event_time_us"] - START) for letter in found]


def told(summary: BatchSummary) -> list[str]:
    return [e.message for e in summary.events if e.kind == "rows_late"]


@pytest.mark.parametrize("order", list(permutations(range(3))))
@pytest.mark.parametrize("sites", [1, 7])
def test_the_order_of_files_does_not_matter_to_a_filter(order: tuple[int, ...], sites: int) -> None:
    (query,) = bind((A,), q="SELECT id, v FROM a WHERE v > 2")
    files = [rows(*[(i, 100 * n + i) for i in range(20)], first=20 * n) for n in range(3)]
    with running((A,), [query], Settings(sites=sites, slots=1)) as run:
        for number in order:
            summary = run.batch({"a": files[number]})
        wanted = pa.concat_tables(files).filter(pa.compute.field("v") > 2).column("id").to_pylist()
        assert sorted(run.results("q").column("id").to_pylist()) == sorted(wanted)
        assert letters(run) == []
        assert summary.manifest.streams[0].refused == 0


def test_a_late_row_is_a_dead_letter_only_for_the_queries_that_refused_it() -> None:
    queries = bind((A,), plain=PLAIN, pairs=PAIRS)
    batches = {"a": rows((1, 50))}, {"a": rows((1, 40), (1, 60), first=1)}
    check((A,), queries, *batches)
    with running((A,), queries) as run:
        for batch in batches:
            summary = run.batch(batch)
        (state,) = summary.manifest.streams
        assert (state.accepted, state.late, state.refused, state.rejected) == (2, 1, 1, 0)
        assert sorted(run.results("plain").column("id").to_pylist()) == [0, 1, 2]
        assert 1 not in run.results("pairs").column("x").to_pylist()
        assert letters(run) == [("a", "late", 40)]


def test_a_late_row_that_nobody_refused_is_counted_and_has_no_letter() -> None:
    queries = bind((A,), plain=PLAIN, pairs=f"{PAIRS} AND x.v > 3 AND y.v > 3")
    with running((A,), queries) as run:
        run.batch({"a": rows((1, 50))})
        summary = run.batch({"a": rows((1, 40))})
        (state,) = summary.manifest.streams
        assert (state.late, state.refused) == (1, 0)
        assert (letters(run), told(summary)) == ([], [])


def test_a_late_row_moves_nothing_whoever_gets_it() -> None:
    """Above the newest row of its stream, below a watermark that was declared at the end of input."""
    queries = bind((A, B), plain=PLAIN, counts=f"{COUNTS}", joined="SELECT x.k, COUNT(*) AS n "
    "FROM a [NOW] x, b [RANGE 9 MICROSECONDS] y WHERE x.k = y.k GROUP BY x.k")  # fmt: skip
    with running((A, B), queries) as run:
        run.batch({"a": rows((1, 50)), "b": rows((1, 90))})
        run.end_of_input()
        before = {s.name: (s.max_ts, s.watermark) for s in run.loop.manifest.streams}  # type: ignore[union-attr]
        summary = run.batch({"a": rows((1, 70)), "b": rows()})
        assert {s.name: (s.max_ts, s.watermark) for s in summary.manifest.streams} == before
        assert run.results("plain").num_rows == 2


def test_rows_too_far_ahead_are_refused_by_every_query(tmp_path: Path) -> None:
    now = START / 1e6
    settings = Settings(sites=1, slots=1, max_drift_seconds=10)
    run = LocalRun(tmp_path, [A], bind((A,), plain=PLAIN), settings=settings, clock=lambda: now)
    run.batch({"a": rows((1, 0), (1, 11_000_000))})
    assert run.results("plain").column("id").to_pylist() == [0]
    assert letters(run) == [("a", "too far ahead", 11_000_000)]
    run.close()


def test_the_first_rows_that_are_refused_are_told_with_the_lateness_they_needed() -> None:
    (query,) = bind((A,), q=COUNTS)
    with running((A,), [query]) as run:
        assert told(run.batch({"a": rows((1, 90_000_000))})) == []
        (message,) = told(run.batch({"a": rows((1, 30_000_000), (1, 80_000_000))}))
        assert message.startswith(
            "2 rows of a came up to 1 MINUTE behind the newest and were refused; LATENESS is 0 SECONDS: "
            "with LATENESS 1 MINUTE"
        )
        # Not in every batch; again when there are ten times as many.
        assert told(run.batch({"a": rows((1, 30_000_000))})) == []
        (message,) = told(run.batch({"a": rows(*[(1, 50_000_000)] * 7)}))
        assert message.startswith("10 rows of a")


def test_the_lateness_that_is_told_would_have_let_the_rows_in() -> None:
    times = ((90,), (31, 80), (95, 30), (20,))
    with running((A,), bind((A,), q=COUNTS)) as run:
        for batch in times:
            summary = run.batch({"a": rows(*((1, t) for t in batch))})
        behind = summary.manifest.streams[0].behind_us
        assert behind == 95 - 20
    patient = stream("a", lateness_us=behind)
    with running((patient,), bind((patient,), q=COUNTS)) as run:
        for batch in times:
            summary = run.batch({"a": rows(*((1, t) for t in batch))})
        assert summary.manifest.streams[0].refused == 0
