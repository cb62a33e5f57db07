"""Following a run: every batch and event is shown once, until the run ends or someone asks to stop."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import takewhile
from typing import TYPE_CHECKING, Any, Protocol

from anabranch.cli.stop_request import StopRequest
from anabranch.runtime.events import Event

if TYPE_CHECKING:
    from anabranch.runtime.run import Run

POLL_SECONDS = 0.2


class View(Protocol):
    """Somewhere to show a run."""

    def batch(self, progress: Mapping[str, Any]) -> None:
        """Show a committed batch, or a further step of it."""

    def event(self, event: Event) -> None:
        """Show an event."""


def follow(run: Run, view: View, stop: StopRequest) -> None:
    """Show `run` in `view` until it ends, fails (then raise why) or is asked to stop."""
    feed = _Feed(run, view)
    try:
        while not run.awaitTermination(POLL_SECONDS):
            feed.show_new()
            if stop.signal is not None:
                run.stop()
                return
    finally:
        feed.show_new()


class _Feed:
    def __init__(self, run: Run, view: View) -> None:
        self._run = run
        self._view = view
        self._last_step = (-1, 0)
        self._last_event: Event | None = None

    def show_new(self) -> None:
        for event in self._new_events():
            self._last_event = event
            self._view.event(event)
        for progress in self._run.recentProgress:
            step = progress["batchId"], progress["step"]
            if step > self._last_step:
                self._last_step = step
                self._view.batch(progress)

    def _new_events(self) -> list[Event]:
        """Those after the last that was shown; the run lets go of old ones, so positions tell nothing."""
        newest_first = takewhile(lambda event: event is not self._last_event, reversed(self._run.events))
        return list(newest_first)[::-1]
