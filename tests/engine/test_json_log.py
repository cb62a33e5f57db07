from __future__ import annotations

import json
from pathlib import Path

import pytest

from anabranch.adapt.events import Event, EventKind
from anabranch.engine import json_log
from anabranch.engine.json_log import EVENT_LOG, PROGRESS_LOG, JsonLog, read_log
from anabranch.engine.local_driver import LocalRun
from anabranch.engine.progress import Progress, QueryProgress, StateProgress
from anabranch.state import PosixStorage
from tests.engine.nasty_runs import bind, rows, stream


def batches_in(log: Path) -> list[int]:
    return [json.loads(line)["batch"] for line in log.read_text().splitlines()]


def test_a_log_that_has_grown_is_begun_anew_and_the_one_before_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(json_log, "MOST_BYTES", 1000)
    log, path = JsonLog(PosixStorage(tmp_path)), tmp_path / EVENT_LOG
    older = tmp_path / "events.older.jsonl"
    for batch in range(100):
        log.on_event(Event(batch, EventKind.MEMORY_PLANNED, "x" * 50))
    assert {found.name for found in tmp_path.iterdir()} == {EVENT_LOG, older.name}
    before, newest = batches_in(older), batches_in(path)
    assert [*before, *newest] == list(range(before[0], 100))
    assert [event["batch"] for event in read_log(PosixStorage(tmp_path), EVENT_LOG)] == [*before, *newest]
    assert 1000 <= older.stat().st_size < 1200
    assert path.stat().st_size < 1200


def test_a_torn_line_is_left_out(tmp_path: Path) -> None:
    log = JsonLog(PosixStorage(tmp_path))
    log.on_event(Event(1, EventKind.TUNED, "whole"))
    with (tmp_path / EVENT_LOG).open("a") as file:
        file.write('{"batch": 2, "ki')
    assert [event["batch"] for event in read_log(PosixStorage(tmp_path), EVENT_LOG)] == [1]


def test_progress_is_logged_beside_events_one_line_per_step(tmp_path: Path) -> None:
    a = stream("a")
    run = LocalRun(
        tmp_path, [a], bind((a,), q="SELECT id FROM a"), listeners=[JsonLog(PosixStorage(tmp_path))]
    )
    run.batch({"a": rows((1, 10), (2, 20))})
    run.batch({"a": rows((1, 30))})
    run.close()
    logged = list(read_log(PosixStorage(tmp_path), PROGRESS_LOG))
    assert [(p["batchId"], p["numInputRows"]) for p in logged] == [(0, 2), (1, 1)]
    assert logged[1]["queries"]["q"]["numOutputRows"] == 1
    assert logged == [p.to_json() for p in run.record.progress]


def test_a_line_of_progress_tells_of_the_busiest_queries_and_of_all_that_failed() -> None:
    queries = {f"q{i}": QueryProgress("running", i, 0, "broken" if i == 3 else None, 0.0) for i in range(50)}
    told = Progress(0, 0, "", 0, StateProgress(0, 0, 0, {}), queries=queries).to_json(most=10)["queries"]
    assert set(told) == {"q3", *(f"q{i}" for i in range(40, 50))}
