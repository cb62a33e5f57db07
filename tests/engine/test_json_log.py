from __future__ import annotations

import json
from pathlib import Path

import pytest

from anabranch.adapt.events import Event, EventKind
from anabranch.engine import json_log
from anabranch.engine.json_log import EVENT_LOG, PROGRESS_LOG, JsonLog, read_log
from anabranch.engine.local_driver import LocalRun
from anabranch.engine.settings import Settings
from anabranch.engine.step import progress as making
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


def test_progress_tells_of_the_queries_with_the_most_results_and_of_those_that_failed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(making, "ALL_QUERIES", 2)
    monkeypatch.setattr(making, "MOST_QUERIES", 3)
    limited = Settings(sites=1, slots=1, sharing="always", quota_pairs=20)
    a = stream("a")
    texts = {f"q{i}": f"SELECT id FROM a WHERE id >= {i}" for i in range(10)}
    pairs = "SELECT x.id AS z FROM a [RANGE 1 HOUR] x, a [RANGE 1 HOUR] y WHERE x.k = y.k"
    queries = bind((a,), **texts, bad=pairs)
    run = LocalRun(tmp_path, [a], queries, settings=limited)
    run.batch({"a": rows(*((1, i) for i in range(10)))})
    run.close()
    (progress,) = run.record.progress
    assert set(progress.queries) == {"q0", "q1", "q2", "bad"}
    assert [progress.queries[f"q{i}"].output_rows for i in range(3)] == [10, 9, 8]
    assert all(progress.queries[f"q{i}"].cpu_ms > 0 for i in range(3))
    assert progress.output_rows == sum(range(1, 11))
