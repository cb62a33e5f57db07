"""How batches and events look."""

from __future__ import annotations

import io
import json
from typing import Any

import pytest
from rich.console import Console

from anabranch.cli.screen import Screen
from anabranch.cli.views import JsonView, LineView, LiveView, batch_line, choose_view
from anabranch.runtime.events import Event


def progress(batch: int, **changes: Any) -> dict[str, Any]:
    return {
        "batchId": batch,
        "step": 0,
        "numInputRows": 100_000,
        "processedRowsPerSecond": 140_000.0,
        "durationMs": {"triggerExecution": 714.0},
        "criticalPathMs": 31.0,
        "streams": {
            "orders": {"watermark": "2026-01-01T00:00:06.000+00:00", "accepted": 7, "late": 3, "rejected": 0}
        },
        "queries": {"underpaid": {"status": "running", "numOutputRows": 1234}},
        "state": {"numRowsTotal": 1_100_000, "memoryUsedBytes": 64 * 1024 * 1024},
        "sites": [{"site": n, "busyMs": 10.0 + n, "rows": 50, "pairs": 9, "results": 5} for n in range(20)],
        "replayed": False,
    } | changes


def test_a_batch_is_one_line_with_rate_state_results_and_late_rows() -> None:
    line = batch_line(progress(7))
    assert line.startswith("batch 7: 100,000 rows in 714 ms (140,000 rows/s)")
    assert "state 1.10 M rows, 64.0 MiB" in line
    assert "underpaid 1,234" in line
    assert "3 late" in line
    assert "rejected" not in line
    assert batch_line(progress(7, step=2)).startswith("batch 7, step 2: ")


def test_a_replayed_batch_says_so() -> None:
    assert "before a restart" in batch_line(progress(7, replayed=True))


def test_json_lines_parse_and_prints_of_sinks_do_not_get_between_them(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with JsonView() as view:
        print("a console sink speaks")
        view.batch(progress(0))
        view.event(Event(0, "query_failed", "too many pairs: 'ü'"))
    view.end(Event(0, "finished", "done"))
    captured = capsys.readouterr()
    records = [json.loads(line) for line in captured.out.splitlines()]
    assert [r["type"] for r in records] == ["batch", "event", "event"]
    assert records[0]["batchId"] == 0
    assert "a console sink speaks" in captured.err


def test_the_screen_shows_streams_queries_the_busiest_sites_and_events() -> None:
    screen = Screen("flow.sql")
    screen.add_batch(progress(0))
    screen.add_batch(progress(1))
    screen.add_event(Event(1, "query_failed", "too many [pairs]"))
    out = io.StringIO()
    Console(file=out, width=120).print(screen.render())
    text = out.getvalue()
    for expected in ("orders", "underpaid", "2,468", "site 0", "and 8 more", "too many [pairs]", "batch 1"):
        assert expected in text


def test_the_view_suits_the_output() -> None:
    terminal = Console(file=io.StringIO(), force_terminal=True)
    pipe = Console(file=io.StringIO())
    assert isinstance(choose_view(title="t", as_json=False, console=terminal), LiveView)
    assert type(choose_view(title="t", as_json=False, console=pipe)) is LineView
    assert isinstance(choose_view(title="t", as_json=True), JsonView)
