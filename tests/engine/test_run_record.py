"""What a run remembers and tells: each event and step once, in order, whatever listeners do."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from anabranch.adapt.events import Event, EventKind
from anabranch.engine import run_record
from anabranch.engine.listener import Listener
from anabranch.engine.local_driver import LocalRun
from anabranch.engine.progress import Progress
from anabranch.engine.run_record import RunRecord
from tests.engine.nasty_runs import bind, rows, stream

A = stream("a")


class Heard(Listener):
    def __init__(self) -> None:
        self.told: list[object] = []

    def on_event(self, event: Event) -> None:
        self.told.append(event)

    def on_progress(self, progress: Progress) -> None:
        self.told.append(progress)


class Deaf(Listener):
    def on_event(self, event: Event) -> None:
        raise ValueError("cannot hear")


def test_every_event_is_told_once_although_few_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_record, "KEPT_EVENTS", 10)
    heard = Heard()
    record = RunRecord(None, {}, listeners=[heard])
    events = [Event(batch, EventKind.TUNED, "x") for batch in range(27)]
    record.note(events)
    assert heard.told == events
    assert list(record.events) == events[-10:]


def test_a_listener_that_fails_is_logged_and_the_others_hear(caplog: pytest.LogCaptureFixture) -> None:
    heard, event = Heard(), Event(0, EventKind.TUNED, "x")
    with caplog.at_level(logging.ERROR, logger="anabranch"):
        RunRecord(None, {}, listeners=[Deaf(), heard]).note([event])
    assert heard.told == [event]
    assert "cannot hear" in caplog.text


def test_events_of_a_step_come_before_its_progress_and_rows_are_those_of_the_step(tmp_path: Path) -> None:
    heard = Heard()
    counts = bind((A,), q="SELECT k, COUNT(*) AS n FROM a [RANGE 9 MICROSECONDS] GROUP BY k")
    run = LocalRun(tmp_path, [A], counts, listeners=[heard])
    run.batch({"a": rows((1, 10), (1, 20))})
    run.batch({"a": rows((1, 40))})
    run.drain()
    run.end_of_input()
    run.close()
    steps = [told for told in heard.told if isinstance(told, Progress)]
    assert [p.input_rows for p in steps][:2] == [2, 1]
    assert all(p.input_rows == 0 for p in steps if p.step)
    further = [told for told in heard.told if isinstance(told, Event) and told.kind is EventKind.FINISHING]
    assert len(further) == sum(p.step > 0 for p in steps) > 0
    last = heard.told.index(further[-1])
    assert heard.told[last + 1 :][-1] is steps[-1]


def test_progress_is_a_mapping_with_the_keys_of_its_json_form(tmp_path: Path) -> None:
    run = LocalRun(tmp_path, [A], bind((A,), q="SELECT id FROM a"))
    run.batch({"a": rows((1, 10))})
    run.close()
    (progress,) = run.record.progress
    assert dict(progress) == progress.to_json()
    assert progress["numInputRows"] == progress.input_rows == 1
    assert progress["queries"]["q"]["numOutputRows"] == progress.queries["q"].output_rows == 1
