"""The record of a run: its latest progress and events, told to listeners as they come."""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence

from anabranch.adapt.events import Event, EventKind
from anabranch.engine.listener import Listener
from anabranch.engine.progress import Progress
from anabranch.engine.step.batch_loop import BatchSummary
from anabranch.engine.step.progress import Lags, progress_of
from anabranch.errors import AnabranchError
from anabranch.state.manifest import Manifest

KEPT_PROGRESS = 100
"""Steps whose progress is kept, as in Spark."""
KEPT_EVENTS = 10_000
"""Events that are kept; the log in the checkpoint has older ones."""


class RunRecord:
    """Remembers what a run did, and tells it to its listeners.

    Parameters
    ----------
    manifest
        What the run goes on from.
    failures
        Why queries had been ended before, by name; told at once.
    """

    def __init__(
        self,
        manifest: Manifest | None,
        failures: Mapping[str, str],
        *,
        listeners: Sequence[Listener] = (),
    ) -> None:
        self.progress: deque[Progress] = deque(maxlen=KEPT_PROGRESS)
        self.events: deque[Event] = deque(maxlen=KEPT_EVENTS)
        self._listeners = tuple(listeners)
        self._turn = threading.RLock()
        """Listeners hear one thing at a time, from whatever thread it comes."""
        self._over = False
        self._rows = _rows(manifest)
        self._failures = failures
        batch = manifest.batch if manifest else -1
        self.note(
            Event(batch, EventKind.QUERY_FAILED, f"ended in an earlier session, and stays so: {failure}")
            for failure in failures.values()
        )

    def committed(
        self, summary: BatchSummary, failures: Mapping[str, str], *, lags: Lags | None = None
    ) -> None:
        """A step has committed; `failures` are those of all queries by now."""
        with self._turn:
            self._committed(summary, failures, lags)

    def _committed(self, summary: BatchSummary, failures: Mapping[str, str], lags: Lags | None) -> None:
        batch = summary.manifest.batch
        if summary.replayed:
            message = "committed before a restart; its results are published"
            self.note([Event(batch, EventKind.REPLAYED, message)])
        elif summary.manifest.step:
            rows = sum(file.rows for file in summary.manifest.results)
            message = f"a step without new rows: {rows:,} results"
            self.note([Event(batch, EventKind.FINISHING, message)])
        self.note(summary.events)
        known, self._failures = self._failures, failures
        self.note(
            Event(batch, EventKind.QUERY_FAILED, why, {"query": query})
            for query, why in failures.items()
            if query not in known
        )
        progress = progress_of(summary, rows_before=self._rows, lags=lags)
        self._rows = _rows(summary.manifest)
        self.progress.append(progress)
        self._tell(lambda listener: listener.on_progress(progress))

    def note(self, events: Iterable[Event]) -> None:
        """Take note of events, from the batch loop or elsewhere."""
        with self._turn:
            for event in () if self._over else events:
                self.events.append(event)
                self._tell(lambda listener, event=event: listener.on_event(event))  # type: ignore[misc]

    def ended(self, error: AnabranchError | None) -> None:
        """The run has ended, and why if it failed."""
        with self._turn:
            self._over = True
            self._tell(lambda listener: listener.on_end(error))

    def _tell(self, tell: Callable[[Listener], None]) -> None:
        for listener in self._listeners:
            try:
                tell(listener)
            except Exception:
                # A batch that has committed is not undone because somebody could not hear of it.
                logging.getLogger("anabranch").exception("listener %r failed", listener)


def _rows(manifest: Manifest | None) -> int:
    return sum(s.accepted + s.late + s.rejected for s in manifest.streams) if manifest else 0
