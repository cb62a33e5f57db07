"""The handle of a running session; it mirrors PySpark's StreamingQuery."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

from pyspark.errors import PySparkException
from pyspark.sql.streaming.query import StreamingQuery

from anabranch.errors import AnabranchError, ConfigError
from anabranch.exchange.partition_map import PARTITIONS
from anabranch.runtime.batch_loop import BatchLoop, BatchSummary
from anabranch.runtime.events import Event
from anabranch.runtime.failures import explain_failure
from anabranch.runtime.idle_steps import IdleSteps
from anabranch.runtime.progress import progress_of
from anabranch.state.fence import Fence
from anabranch.state.manifest import Manifest

KEPT_PROGRESS = 100
"""Batches whose progress is kept, as in Spark."""
KEPT_EVENTS = 10_000
"""Events that are kept; of decisions, the log in the checkpoint has older ones."""


class Run:
    """A running session. Made by `Session.start`."""

    def __init__(self, loop: BatchLoop, fence: Fence) -> None:
        self._loop = loop
        self._fence = fence
        self._query: StreamingQuery | None = None
        self._failure: BaseException | None = None
        self._progress: deque[dict[str, Any]] = deque(maxlen=KEPT_PROGRESS)
        self._ending: threading.Thread | None = None
        self._idle: IdleSteps | None = None
        self._stopped = False
        self.turn = threading.Lock()
        """Held by whoever works on the batch loop: Spark's batch, or a step between two."""
        self._events: deque[Event] = deque(maxlen=KEPT_EVENTS)
        self._failed = loop.failures
        for failure in self._failed.values():
            assert loop.manifest is not None
            message = f"ended in an earlier session, and stays so: {failure}"
            self._events.append(Event(loop.manifest.batch, "query_failed", message))

    def attach(self, query: StreamingQuery) -> None:
        self._query = query

    def finish_when_done(self, finish: Callable[[], Iterator[BatchSummary]]) -> None:
        """Take the last steps once the run has read everything, unless it is stopped or fails."""

        def wait_and_finish() -> None:
            with suppress(PySparkException):  # told by exception()
                self.streamingQuery.awaitTermination()
            if self._stopped or self._failure is not None or self.streamingQuery.exception() is not None:
                return
            try:
                self._take_last_steps(finish())
            except BaseException as error:
                self._fail(error)

        self._ending = threading.Thread(target=wait_and_finish, name="anabranch-finish", daemon=True)
        self._ending.start()

    def _take_last_steps(self, steps: Iterator[BatchSummary]) -> None:
        for step in steps:
            self._note_step(step)
            if self._stopped:
                return

    def step_when_idle(self, step: Callable[[], BatchSummary]) -> None:
        """Let rows that wait enter while no new ones come."""

        def fail(error: BaseException) -> None:
            self._fail(error)
            self.streamingQuery.stop()

        self._idle = IdleSteps(
            lambda: self._loop.rows_wait,
            lambda: self._note_step(step()),
            alive=lambda: self._failure is None and self.streamingQuery.isActive,
            failed=fail,
            turn=self.turn,
        )

    def _note_step(self, step: BatchSummary) -> None:
        self._progress.append(progress_of(step, rows_before=_rows(step.manifest)))
        rows = sum(file.rows for file in step.manifest.results)
        self._events.append(
            Event(step.manifest.batch, "finishing", f"a step without new rows: {rows:,} results")
        )
        self._note_events(step)

    def process(self, batch: int, *, offsets: str, source_id: str) -> None:
        """Run one micro-batch; Spark calls it."""
        before = self._loop.manifest
        rows_before = _rows(before) if before else 0
        try:
            summary = self._loop.process(batch, offsets=offsets, source_id=source_id)
        except BaseException as error:
            if not self._stopped:  # whoever stops a run interrupts its batch
                self._fail(error)
            raise
        finally:
            if self._idle is not None:
                self._idle.stir()
        self._progress.append(progress_of(summary, rows_before=rows_before))
        self._note_events(summary)

    def _fail(self, error: BaseException) -> None:
        """What fails first is the cause of what fails after it."""
        if self._failure is None:
            self._failure = error

    def _note_events(self, summary: BatchSummary) -> None:
        batch = summary.manifest.batch
        if summary.replayed:
            self._events.append(
                Event(batch, "replayed", "committed before a restart; its results are published")
            )
        self._events += [Event(batch, str(e.kind), e.message, e.data) for e in summary.events]
        known, self._failed = self._failed, self._loop.failures
        self._events += [
            Event(batch, "query_failed", failure) for q, failure in self._failed.items() if q not in known
        ]

    @property
    def streamingQuery(self) -> StreamingQuery:
        """Spark's own handle."""
        if self._query is None:
            raise AnabranchError("the run has not started yet")
        return self._query

    @property
    def isActive(self) -> bool:
        active = self.streamingQuery.isActive or (self._ending is not None and self._ending.is_alive())
        if not active:
            self._fence.release()  # for those who ask again and again instead of waiting
        return active

    @property
    def status(self) -> dict[str, Any]:
        return dict(self.streamingQuery.status)

    @property
    def lastProgress(self) -> dict[str, Any] | None:
        """Progress of the last committed batch."""
        return self._progress[-1] if self._progress else None

    @property
    def recentProgress(self) -> list[dict[str, Any]]:
        return list(self._progress)

    @property
    def events(self) -> list[Event]:
        """What happened beside rows, oldest first: the newest events."""
        return list(self._events)

    def awaitTermination(self, timeout: float | None = None) -> bool:
        """Wait for the end of the run, or for `timeout` seconds; raises what made it fail."""
        try:
            if timeout is None:
                self.streamingQuery.awaitTermination()
            else:
                self.streamingQuery.awaitTermination(timeout)  # type: ignore[arg-type]  # takes parts of seconds
        except PySparkException:
            pass  # told better by exception()
        if self._ending is not None:
            self._ending.join(timeout)
        if self.isActive:
            return False
        self._fence.release()
        if (error := self.exception()) is not None:
            raise error from self._failure
        return True

    def exception(self) -> AnabranchError | None:
        """Why the run failed; None while it runs or when it ended well."""
        if self._failure is not None and not self.isActive:
            return explain_failure(self._failure)
        failure = self.streamingQuery.exception()
        return None if failure is None else explain_failure(failure)

    def rescale(self, sites: int) -> None:
        """Change the number of sites from the next batch on; no state is rewritten."""
        if not 1 <= sites <= PARTITIONS:
            raise ConfigError(f"rescale({sites}): choose 1 to {PARTITIONS} sites")
        self._loop.change(sites=sites)

    def set(self, **settings: int | str) -> None:
        """Change settings of the running session, such as `memory_budget_mb`, from the next batch on."""
        self._loop.change(**settings)

    def migrate(
        self, query: str, plan: str, *, site: int | None = None, strategy: str = "moving_state"
    ) -> None:
        """Change a query's plan at the next boundary, at one site or at all.

        Parameters
        ----------
        plan
            A join tree over the query's references, such as `((a b) c)`.
        strategy
            `moving_state`: states that the new plan lacks are computed in the next batch; or
            `parallel_track`: both plans run until the old rows have left the windows.
        """
        self._loop.migrate(query, plan, site, strategy)

    def stop(self) -> None:
        """Stop after the batch under way, which commits or leaves no trace."""
        self._stopped = True
        if self._idle is not None:
            self._idle.stop()
        self.streamingQuery.stop()
        if self._ending is not None:
            self._ending.join()
        self._fence.release()


def _rows(manifest: Manifest) -> int:
    return sum(s.accepted + s.late + s.rejected for s in manifest.streams)
