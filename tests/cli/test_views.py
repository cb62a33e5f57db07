"""How batches and events look."""

from __future__ import annotations

import io
import json
from datetime import UTC, datetime
from typing import Any

import pytest
from rich.console import Console

from anabranch.adapt.events import Event, EventKind
from anabranch.cli.screen.screen import Screen
from anabranch.cli.screen.views import JsonView, LineView, LiveView, batch_line, choose_view
from anabranch.engine.progress import Progress, QueryProgress, SiteProgress, StateProgress, StreamProgress
from anabranch.errors import AnabranchError
from anabranch.spark.run_html import SHOWN_QUERIES, run_html


def progress(batch: int, **changes: Any) -> Progress:
    return Progress(
        batch,
        **{
            "step": 0,
            "timestamp": "2026-01-01T00:00:07.000+00:00",
            "input_rows": 100_000,
            "rows_per_second": 140_000.0,
            "duration_ms": {"triggerExecution": 714.0},
            "critical_path_ms": 31.0,
            "streams": {
                "orders": StreamProgress(
                    "2026-01-01T00:00:06.000+00:00", accepted=7, late=3, refused=2, rejected=0
                )
            },
            "queries": {"underpaid": QueryProgress("running", output_rows=1234, rows_waiting=0)},
            "state": StateProgress(rows=1_100_000, rows_put_off=0, bytes=64 * 1024 * 1024),
            "sites": tuple(
                SiteProgress(n, 10.0 + n, rows=50, pairs=9, results=5, state_bytes=0) for n in range(20)
            ),
            **changes,
        },
    )


def test_a_batch_is_one_line_with_rate_state_results_and_late_rows() -> None:
    line = batch_line(progress(7))
    assert line.startswith("batch 7: 100,000 rows in 714 ms (140,000 rows/s)")
    assert "state 1.10 M rows, 64.0 MiB" in line
    assert "underpaid 1,234" in line
    assert "3 late so far · 2 refused so far" in line
    assert "rejected" not in line
    assert batch_line(progress(7, step=2)).startswith("batch 7, step 2: ")


def test_a_replayed_batch_says_so() -> None:
    assert "before a restart" in batch_line(progress(7, replayed=True))


def test_json_lines_parse_and_prints_of_sinks_do_not_get_between_them(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with JsonView() as view:
        print("a console sink speaks")
        view.on_progress(progress(0))
        view.on_event(Event(0, EventKind.QUERY_FAILED, "too many pairs: 'ü'"))
    view.last_word(Event(0, EventKind.FINISHED, "done"))
    captured = capsys.readouterr()
    records = [json.loads(line) for line in captured.out.splitlines()]
    assert [r["type"] for r in records] == ["batch", "event", "event"]
    assert records[0]["batchId"] == 0
    assert "a console sink speaks" in captured.err


def test_the_screen_shows_streams_queries_the_busiest_sites_and_events() -> None:
    screen = Screen("flow.sql")
    screen.add_batch(progress(0))
    screen.add_batch(progress(1))
    screen.add_event("batch 1: query_failed: too many [pairs]")
    text = drawn(screen, width=120)
    for expected in ("orders", "underpaid", "2,468", "20 sites, busiest 19: 29 ms", "[pairs]", "batch 1"):
        assert expected in text


def drawn(screen: Screen, *, width: int) -> str:
    out = io.StringIO()
    Console(file=out, width=width).print(screen.render())
    return out.getvalue()


@pytest.mark.parametrize("sites", [1, 64, 256])
def test_the_screen_fits_80_columns_and_24_lines(sites: int) -> None:
    stream = StreamProgress("2001-03-01T10:03:14.000+00:00", 1_234_567, late=12, refused=2, rejected=3)
    query = QueryProgress("running", output_rows=1_234_567, rows_waiting=0)
    screen = Screen("flow.sql · checkpoint " + "deep/" * 30)
    busy = progress(
        1234,
        step=17,
        input_rows=10_000_000,
        streams={f"a_stream_with_a_long_name_{n}": stream for n in range(9)},
        queries={f"a_query_with_a_rather_long_name_{n}": query for n in range(9)}
        | {"failed": QueryProgress("failed", 0, 0, "too many pairs " * 20)},
        sites=tuple(
            SiteProgress(n, 10.0 + n, rows=50, pairs=9, results=5, state_bytes=0) for n in range(sites)
        ),
    )
    for _ in range(80):
        screen.add_batch(busy)
        screen.add_event("batch 7: rebalanced: 119 partitions moved " + "and more " * 30)
    lines = drawn(screen, width=80).splitlines()
    assert len(lines) <= 24
    assert max(map(len, lines)) <= 80
    assert "and 5 more" in drawn(screen, width=80)


def test_data_of_the_past_is_historical_and_not_thousands_of_days_behind() -> None:
    old = StreamProgress("2001-03-01T10:03:14.000+00:00", 7, late=0, refused=0, rejected=0)
    now = StreamProgress(datetime.now(UTC).isoformat(), 7, late=0, refused=0, rejected=0)
    screen = Screen("flow.sql")
    screen.add_batch(progress(0, streams={"old": old, "now": now}))
    text = drawn(screen, width=100)
    (row,) = [line for line in text.splitlines() if " old " in line]
    assert "historical" in row
    assert "days" not in text
    assert text.count("historical") == 1


def test_rows_per_second_are_the_same_on_the_screen_in_lines_in_json_and_in_notebooks(
    capsys: pytest.CaptureFixture[str],
) -> None:
    batch, screen = progress(3, rows_per_second=123_456.0), Screen("t")
    screen.add_batch(batch)
    JsonView().on_progress(batch)
    assert "rows/s 123,456" in drawn(screen, width=100)
    assert "(123,456 rows/s)" in batch_line(batch)
    assert json.loads(capsys.readouterr().out)["processedRowsPerSecond"] == 123_456.0
    assert "(123,456 rows/s)" in run_html("running", batch, [])
    assert "(123,456 rows/s)" in repr(batch)


def test_a_notebook_shows_plans_and_decisions_and_no_query_runs_in_a_run_that_has_ended() -> None:
    queries = {f"q{n}": QueryProgress("running", n, 0) for n in range(SHOWN_QUERIES + 2)}
    queries["q1"] = QueryProgress("failed", 0, 0, failure="matches <too> many pairs")
    html = run_html(
        "stopped",
        progress(3, queries=queries),
        [Event(2, EventKind.PLAN_CHANGED, "site 0 takes ((a b) c)")],
        plans={"q0": ["((a b) c)", "((b c) a)"], "q2": ["(a b)"]},
    )
    assert "running" not in html
    assert "matches &lt;too&gt; many pairs" in html
    assert "((a b) c) at 1 sites, ((b c) a) at 1" in html
    assert "site 0 takes ((a b) c)" in html
    assert "2 more queries" in html


def test_a_round_is_told_in_a_line_per_kind_however_many_sites_it_concerns() -> None:
    out = io.StringIO()
    view = LineView(Console(file=out, width=200))
    for site in range(64):
        view.on_event(Event(3, EventKind.PLAN_CHANGED, f"site {site} takes ((a b) c)"))
        view.on_event(Event(3, EventKind.MOVE_ACCEPTED, f"partition {site}: site 0 → site 1"))
    view.on_event(Event(3, EventKind.REBALANCED, "64 partitions moved, busiest site 1.16× → 1.02× the mean"))
    view.on_progress(progress(3))
    told, rebalanced, batch = out.getvalue().splitlines()
    assert told == "batch 3: plan_changed: 64 times, first: site 0 takes ((a b) c)"
    assert rebalanced.startswith("batch 3: rebalanced: 64 partitions moved, busiest site 1.16× → 1.02×")
    assert batch.startswith("batch 3: 100,000 rows")


def test_a_run_that_was_stopped_is_not_called_done() -> None:
    out = io.StringIO()
    with LiveView("flow.sql", Console(file=out, width=120, force_terminal=True)) as view:
        view.on_progress(progress(0))
        view.on_end(None)
        view.stopped()
    last = out.getvalue().rpartition("flow.sql")[2]
    assert "stopped" in last
    assert "done" not in last


def test_the_view_suits_the_output() -> None:
    terminal = Console(file=io.StringIO(), force_terminal=True)
    pipe = Console(file=io.StringIO())
    assert isinstance(choose_view(title="t", as_json=False, console=terminal), LiveView)
    assert type(choose_view(title="t", as_json=False, console=pipe)) is LineView
    assert isinstance(choose_view(title="t", as_json=True), JsonView)


def test_lines_leave_out_what_another_event_sums_up_and_json_does_not(
    capsys: pytest.CaptureFixture[str],
) -> None:
    out = io.StringIO()
    for view in (LineView(Console(file=out, width=200)), JsonView()):
        view.on_event(Event(3, EventKind.MOVE_ACCEPTED, "partition 7: site 0 → site 1"))
        view.on_event(Event(3, EventKind.REBALANCED, "1 partition moved"))
        view.on_end(None)
    assert out.getvalue() == "batch 3: rebalanced: 1 partition moved\n"
    assert [json.loads(line)["kind"] for line in capsys.readouterr().out.splitlines()] == [
        "move_accepted",
        "rebalanced",
    ]


@pytest.mark.parametrize(("error", "word"), [(None, "done"), (AnabranchError("x"), "failed")])
def test_at_the_end_the_screen_says_how_it_ended(error: AnabranchError | None, word: str) -> None:
    out = io.StringIO()
    view = LiveView("flow.sql", Console(file=out, width=120, force_terminal=True))
    with view:
        view.on_progress(progress(0))
        view.on_end(error)
    last = out.getvalue().rpartition("flow.sql")[2]
    assert word in last
    assert "running" not in last
    assert "Ctrl-C" not in last
