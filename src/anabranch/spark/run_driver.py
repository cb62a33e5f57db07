"""What makes a run go: Spark's batches, the steps between them, the last steps, the end."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql.streaming.query import StreamingQuery

from anabranch.adapt.events import Event, EventKind
from anabranch.engine.listener import Listener
from anabranch.engine.run_record import RunRecord
from anabranch.engine.step.batch_loop import BatchLoop, BatchSummary
from anabranch.engine.step.times.idle_steps import IdleSteps
from anabranch.engine.task.arrival.sent_rows import Relabelling, SentRows
from anabranch.errors import AnabranchError
from anabranch.spark.batch_beside import BatchBeside
from anabranch.spark.failures import explain_failure
from anabranch.spark.kafka.broker_watch import BrokerWatch
from anabranch.state.fence import Fence

Steps = Callable[[], Iterator[BatchSummary]]
RESTART_POLL_S = 0.05
"""How often to look whether Spark's query has been started anew."""
PLANNING_POLL_S = 0.02
LONGEST_PLANNING_S = 5.0
"""How long a stop waits for a batch that Spark plans; then it is interrupted, and Spark may complain."""


class RunDriver:
    """Drives the batch loop of a run, from its first batch until its fence is released.

    Parameters
    ----------
    loop, fence
        The batch loop, and the right to write to its checkpoint; released when the run ends.
    listeners
        Told of everything.
    watch
        Knows how far Kafka's topics go, and whether its brokers answer.
    """

    def __init__(
        self,
        loop: BatchLoop,
        fence: Fence,
        *,
        listeners: Sequence[Listener] = (),
        watch: BrokerWatch | None = None,
    ) -> None:
        self.loop = loop
        self.record = RunRecord(loop.manifest, loop.failures, listeners=listeners)
        self.error: AnabranchError | None = None
        """Why the run failed; None while it runs or when it ended well."""
        self.cause: BaseException | None = None
        """What was raised first: the cause of what failed after it."""
        self.is_stopping = False
        self.read_mail: Callable[[], None] = lambda: None
        """Takes up what other processes ask for, before every step."""
        self.without_rows: Callable[[], None] = lambda: None
        """Lets the next step work on no rows."""
        self.settle: Callable[[], None] = lambda: None
        """Waits for what was begun beside the batches: Spark complains if a process ends before."""
        self.beside = BatchBeside(self._fail_beside)
        """Runs batches that Spark does not wait for."""
        self._fence = fence
        self._watch_kafka = watch
        self._turn = threading.Lock()
        """Held by whoever works on the batch loop: Spark's batch, or a step between two."""
        self._telling: set[int] = set()
        """Threads that tell listeners of something."""
        self._step: Callable[[], BatchSummary] | None = None
        self._idle: IdleSteps | None = None
        self._query: StreamingQuery | None = None
        self._watcher: threading.Thread | None = None
        self._launch: Callable[[], StreamingQuery] | None = None
        self._sent: SentRows | None = None
        """What Spark's query makes its rows for."""
        self._stale_since: float | None = None
        """When a step was committed after which Spark's query reads for other queries or layouts."""
        self._restart = threading.Event()
        """Set while Spark's query is being replaced by another one."""
        self._refused = threading.Event()
        """Set when a batch is not taken, and waits for Spark's query to be stopped."""

    def process(
        self,
        batch: int,
        *,
        offsets: str,
        source_id: str,
        ready: Callable[[], None] = lambda: None,
        stopped: Callable[[], None] | None = lambda: None,
    ) -> None:
        """Run one micro-batch; Spark calls it.

        Parameters
        ----------
        ready
            Called when it is this batch's turn.
        stopped
            Called instead of running the batch when the run is being stopped; must raise, or Spark would take
            the batch for done. None for a batch that Spark does not wait for: it has done so already.
        """
        with self._turn:
            if self.takes_batches:
                ready()
                self.read_mail()
                self._process(batch, offsets, source_id)
                self._let_rows_in()
                return
        if stopped is not None:
            self._refused.set()
            stopped()  # without the turn: whoever stops waits for it

    @property
    def takes_batches(self) -> bool:
        """Whether a batch of Spark's query is run, instead of refused."""
        return not self.is_stopping and not self.is_stale

    @property
    def is_stale(self) -> bool:
        """Whether queries have come since Spark's query was started, for which it does not send rows."""
        return self._sent is not None and self.read_as is None

    @property
    def read_as(self) -> Relabelling | None:
        """How the rows of Spark's query are read for the layout there is now."""
        return None if self._sent is None else self._sent.read_for(self.loop.layout, self.loop.wire)

    def _process(self, batch: int, offsets: str, source_id: str) -> None:
        with self._failing():
            summary = self.loop.process(batch, offsets=offsets, source_id=source_id)
        self._committed(summary)

    def _let_rows_in(self) -> None:
        """Take steps until no row waits for a query that is to go."""
        while self.loop.owes_rows:
            with self._failing():
                self.without_rows()
                summary = self.loop.step()
            self._committed(summary)

    @contextmanager
    def _failing(self) -> Iterator[None]:
        """Take note of what a step raises."""
        try:
            yield
        except BaseException as error:
            self._fail(error)
            raise
        finally:
            if self._idle is not None:
                self._idle.wake()

    def note(self, events: Iterable[Event]) -> None:
        """Take note of events that come from elsewhere than the batch loop."""
        with self._turn:
            self.record.note(events)

    def tell(self, kind: EventKind, message: str) -> None:
        """Take note of something at once, also while a batch is under way that may wait for it."""
        at = self.loop.manifest
        with self._as_teller():
            self.record.note([Event(at.batch if at else -1, kind, message)])

    def begin(
        self,
        launch: Callable[[], StreamingQuery],
        *,
        finish: Steps | None = None,
        step: Callable[[], BatchSummary] | None = None,
    ) -> None:
        """Start Spark's query and watch over it until it ends.

        Parameters
        ----------
        launch
            Starts Spark's query for the layout that the batch loop has then; again when queries have come.
        finish
            The last steps, once the run has read everything, unless it is stopped or fails.
        step
            Lets rows that wait enter while no new ones come.
        """
        self._launch, self._step = launch, step
        if self._watch_kafka is not None:
            self._watch_kafka.tell = self.tell
        self._sent = SentRows(self.loop.layout, self.loop.wire)
        self._query = launch()
        if step is not None:
            self._idle = IdleSteps(
                lambda: self._step_is_due() or self.loop.delivery.is_due,
                lambda: self._step_between(step),
                alive=lambda: self.cause is None and (self._query_runs() or self._restart.is_set()),
                failed=self._fail_between_batches,
                turn=self._turn,
            )
        self._watcher = threading.Thread(
            target=self._watch, args=(finish,), name="anabranch-run", daemon=True
        )
        self._watcher.start()

    def _step_between(self, step: Callable[[], BatchSummary]) -> None:
        """Do what is due although no new rows come: a step, or a sink is tried again that has failed."""
        if self._step_is_due():
            self._committed(self._stepped(step))
        else:
            self.record.note(self.loop.try_sinks())

    def _stepped(self, step: Callable[[], BatchSummary]) -> BatchSummary:
        self.read_mail()
        return step()

    def _step_is_due(self) -> bool:
        return not self.is_stale and (self.loop.rows_wait or self.loop.changes_wait)

    def _query_runs(self) -> bool:
        return self._query is not None and bool(self._query.isActive)

    @property
    def query(self) -> StreamingQuery:
        if self._query is None:
            raise AnabranchError("the run has not started yet")
        return self._query

    @property
    def is_active(self) -> bool:
        return self._watcher is not None and self._watcher.is_alive()

    def wait(self, timeout: float | None = None) -> bool:
        """Wait for the end; whether it has come."""
        if self._watcher is not None and self._watcher is not threading.current_thread():
            self._watcher.join(timeout)
        return not self.is_active

    def process_all_available(self) -> None:
        """Wait until all there is now has been read, and rows that wait have entered."""
        if self._step is None:  # a run that reads what there is and ends
            self.wait()
            return
        while True:
            before = self.query
            try:
                before.processAllAvailable()
                self._await_batch()
            except (PySparkException, Py4JError):
                if not self._restart.is_set() and before is self.query:
                    self.wait()  # told by `error`
            if self.cause is not None:
                self.wait()
            with self._turn:
                while self.is_active and not self.is_stopping and self._step_is_due():
                    self._committed(self._stepped(self._step))
            if (not self.is_stale and before is self.query) or not self.is_active or self.is_stopping:
                return
            self.wait(RESTART_POLL_S)

    def stop(self) -> None:
        """Stop after the batch under way.

        Spark would cancel its job, and search what Python then raises, thousands of lines, for the word that
        it was cancelled by a regular expression which overflows Java's stack.
        """
        if self._watcher is not None and not self.is_active:
            return
        self.is_stopping = True
        if threading.get_ident() in self._telling:  # a listener wants it, while its batch is under way
            threading.Thread(target=self.stop, name="anabranch-stop", daemon=True).start()
            return
        if self._idle is not None:
            self._idle.stop()
        with self._turn:
            pass  # the batch under way has ended, and no other begins
        if self._query is not None:
            self._stop_query(self._query)
        self.wait()

    def _stop_query(self, query: StreamingQuery) -> None:
        """Stop Spark's query where that is quiet: between two batches, or when it has handed one over."""
        end = time.monotonic() + LONGEST_PLANNING_S
        while query.isActive and query.status["isTriggerActive"] and time.monotonic() < end:
            if self._refused.wait(PLANNING_POLL_S):
                break
        query.stop()

    def _watch(self, finish: Steps | None) -> None:
        try:
            self._await(self.query)
            while self.is_stale and not self.is_stopping and self.cause is None:
                self._relaunch()
                self._await(self.query)
            if finish is not None and not self.is_stopping and self.cause is None:
                self._take_last_steps(finish())
            if finish is not None and not self.is_stopping and self.cause is None:
                self._give_all()
        except BaseException as error:
            self._fail(error)
        if self._idle is not None:
            self._idle.stop()
        if self._watch_kafka is not None:
            self._watch_kafka.stop()
        self.settle()
        self.beside.close()
        self._fence.release()
        if self.cause is not None:
            self.error = explain_failure(self.cause)
        self.record.ended(self.error)

    def _relaunch(self) -> None:
        """Go on with a query of Spark that sends rows for the queries there are now.

        A batch that it had begun comes again, under its number and with its offsets.
        """
        assert self._launch is not None
        self._restart.set()
        stopped = time.monotonic()
        with self._turn:
            if self.is_stopping:
                return
            self._sent = SentRows(self.loop.layout, self.loop.wire)
            self._refused.clear()
            self._query = self._launch()
            started = time.monotonic()
            since, self._stale_since = self._stale_since or stopped, None
            batch = self.loop.manifest.batch if self.loop.manifest else -1
            message = (
                "Spark's query was started anew to read for other queries or layouts: "
                f"all waited {started - since:.1f} s"
            )
            data = {"seconds": round(started - since, 3), "stopping": round(stopped - since, 3)}
            self.record.note([Event(batch, EventKind.INGEST_RESTARTED, message, data)])
        self._restart.clear()

    def _end_stale_query(self) -> None:
        """Stop Spark's query, which sends rows for other queries than there are now."""
        with self._turn:
            pass  # the batch under way has ended, and no other begins
        if self.is_stale and not self.is_stopping and self._query is not None:
            self._restart.set()
            self._stop_query(self._query)

    def _await(self, query: StreamingQuery) -> None:
        try:
            query.awaitTermination()
        except PySparkException as error:
            self._fail(query.exception() or error)
        else:
            if (failure := query.exception()) is not None:
                self._fail(failure)
        self._await_batch()

    def _await_batch(self) -> None:
        try:
            self.beside.wait()
        except BaseException as error:
            self._fail(error)

    def _take_last_steps(self, steps: Iterator[BatchSummary]) -> None:
        for step in steps:
            self._committed(step)
            if self.is_stopping:
                return

    def _give_all(self) -> None:
        """A run that has read everything is not complete before its sinks have all of it."""
        self.record.note(self.loop.try_sinks(now=True))
        self.loop.delivery.check_all_taken()

    def _committed(self, summary: BatchSummary) -> None:
        lags = self._watch_kafka.lag(summary.manifest.batch) if self._watch_kafka is not None else {}
        with self._as_teller():
            self.record.committed(summary, self.loop.failures, lags=lags)
        if self.is_stale and not self._restart.is_set():
            self._stale_since = self._stale_since or time.monotonic()
            threading.Thread(target=self._end_stale_query, name="anabranch-restart", daemon=True).start()

    @contextmanager
    def _as_teller(self) -> Iterator[None]:
        self._telling.add(threading.get_ident())
        try:
            yield
        finally:
            self._telling.discard(threading.get_ident())

    def _fail_beside(self, error: BaseException) -> None:
        """A batch has failed that runs beside Spark's query; that may wait for the batch, or for rows."""
        self._fail(error)
        threading.Thread(target=self.query.stop, name="anabranch-failed", daemon=True).start()

    def _fail_between_batches(self, error: BaseException) -> None:
        self._fail(error)
        self.query.stop()

    def _fail(self, error: BaseException) -> None:
        if self.cause is None and not self.is_stopping:
            self.cause = error
