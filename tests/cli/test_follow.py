from __future__ import annotations

from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

import pytest

from anabranch.adapt.events import AdaptEvent, EventKind
from anabranch.cli.follow import follow
from anabranch.cli.stop_request import StopRequest
from anabranch.runtime import run as run_module
from anabranch.runtime.events import Event
from anabranch.runtime.run import Run

KEPT = 10


class ScriptedRun(Run):
    """A run that has so many events more each time it is asked whether it has ended."""

    def __init__(self, *events: int) -> None:
        super().__init__(SimpleNamespace(failures={}), SimpleNamespace())  # type: ignore[arg-type]
        self._script = list(events)
        self._batch = 0

    def awaitTermination(self, timeout: float | None = None) -> bool:
        for _ in range(self._script.pop(0)):
            told = AdaptEvent(self._batch, EventKind.MEMORY_PLANNED, "told")
            manifest = SimpleNamespace(batch=self._batch)
            self._note_events(SimpleNamespace(manifest=manifest, replayed=False, events=(told,)))  # type: ignore[arg-type]
            self._batch += 1
        return not self._script


class Shown:
    """The batches of the events that were shown."""

    def __init__(self) -> None:
        self.batches: list[int] = []

    def batch(self, progress: Mapping[str, Any]) -> None:
        raise AssertionError

    def event(self, event: Event) -> None:
        self.batches.append(event.batch)


def test_every_event_is_shown_once_although_a_run_keeps_few(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_module, "KEPT_EVENTS", KEPT)
    run, shown = ScriptedRun(3, 0, KEPT, 1, KEPT - 1, 0, 4), Shown()
    follow(run, shown, StopRequest())
    assert shown.batches == list(range(27))
    assert [event.batch for event in run.events] == list(range(17, 27))


def test_further_steps_of_a_batch_are_shown_as_well() -> None:
    run, shown = ScriptedRun(0, 0), []
    steps = [(0, 0), (1, 0), (1, 1), (1, 2), (2, 0)]
    progress = [{"batchId": batch, "step": step} for batch, step in steps]
    view = SimpleNamespace(batch=lambda p: shown.append((p["batchId"], p["step"])))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ScriptedRun, "recentProgress", progress)
        follow(run, view, StopRequest())
    assert shown == steps
