"""The end of a run says how many rows were late, refused and rejected, and how many results wait."""

from __future__ import annotations

import signal
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest

from anabranch.adapt.events import Event
from anabranch.cli.screen.last_word import last_word
from anabranch.engine.local_driver import LocalRun
from anabranch.plan.logical import Query
from tests.engine.nasty_runs import bind, rows, stream

A = stream("a", lateness_us=5)
COUNTS = "SELECT k, COUNT(*) AS n FROM a [RANGE 9 MICROSECONDS] GROUP BY k"


def word(
    root: Path, queries: Sequence[Query], *batches: pa.Table, stopped: bool = False, ended: bool = False
) -> Event:
    run = LocalRun(root, [A], queries)
    for batch in batches:
        run.batch({"a": batch})
    if ended:
        run.end_of_input()
    run.drain()
    run.close()
    stop: Any = SimpleNamespace(signal=signal.SIGINT if stopped else None)
    return last_word(root, queries, stop)


def test_zeros_are_told_too(tmp_path: Path) -> None:
    event = word(tmp_path, bind((A,), q="SELECT id FROM a"), rows((1, 10)))
    assert "1 row in all, 0 late, 0 refused, 0 rejected; no results wait;" in event.message
    assert event.kind == "finished"


@pytest.mark.parametrize("stopped", [False, True])
def test_late_refused_and_waiting_are_told_in_words_and_numbers(tmp_path: Path, stopped: bool) -> None:
    queries = bind((A,), q=COUNTS, plain="SELECT id FROM a")
    no_time = rows((1, 0)).set_column(3, "ts", pa.nulls(1, pa.timestamp("us")))
    event = word(tmp_path, queries, rows((1, 10), (2, 40)), rows((1, 20), (1, 41)), no_time, stopped=stopped)
    assert "5 rows in all, 1 late, 1 refused, 1 rejected (kept in dead_letters/)" in event.message
    assert "2 results wait for later rows; --end-of-input emits them" in event.message
    data = event.to_json()
    assert (data["late"], data["refused"], data["rejected"], data["putOff"]) == (1, 1, 1, 0)
    assert data["waiting"] == {"q": 2, "plain": 0}
    assert event.message.startswith("stopped after batch 2 (SIGINT)" if stopped else "everything available")


def test_having_may_let_fewer_through(tmp_path: Path) -> None:
    event = word(tmp_path, bind((A,), q=f"{COUNTS} HAVING COUNT(*) > 1"), rows((1, 10), (2, 40)))
    assert "up to 1 result waits for later rows" in event.message


def test_windows_that_are_not_over_wait_until_the_input_ends(tmp_path: Path) -> None:
    text = "SELECT k, COUNT(*) AS n FROM a GROUP BY k, window(ts, INTERVAL 10 MICROSECONDS)"
    queries = bind((A,), tumbling=text, q=COUNTS)
    event = word(tmp_path / "open", queries, rows((1, 10), (2, 40)))
    assert "1 result waits for later rows, and so do open windows of tumbling; --end" in event.message
    alone = word(tmp_path / "alone", queries[:1], rows((1, 10), (2, 40)))
    assert "; open windows of tumbling wait for later rows; --end-of-input emits them;" in alone.message
    over = word(tmp_path / "over", queries[:1], rows((1, 10)), ended=True)
    assert "; no results wait;" in over.message


def test_a_run_that_found_nothing_says_so(tmp_path: Path) -> None:
    assert "nothing to read" in word(tmp_path, bind((A,), q=COUNTS)).message
    assert "before the first batch" in word(tmp_path, bind((A,), q=COUNTS), stopped=True).message
