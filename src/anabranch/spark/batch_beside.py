"""A batch that runs beside Spark's query, which plans the next one meanwhile (`SET plan_ahead`).

    Spark's query   │ plan N │ hand over │ commits N │ plan N+1 │ waits │ hand over │ commits N+1 │ …
    our thread                          │ run N ─────────────────────► │ run N+1 ────────────────► …

Spark takes a batch for done when it has been handed over. So its log of commits may be one batch ahead of the
manifest when a process dies; then it is taken back before Spark's query is started again (`rewind_spark`).
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor


class BatchBeside:
    """Runs one batch at a time in a thread of its own.

    Parameters
    ----------
    failed
        Told what a batch raises: perhaps no other batch comes that could raise it.
    """

    def __init__(self, failed: Callable[[BaseException], None]) -> None:
        self._failed = failed
        self._threads = ThreadPoolExecutor(1, thread_name_prefix="anabranch-batch")
        self._batch: Future[None] | None = None

    def begin(self, run: Callable[[], None]) -> None:
        """Begin a batch; the one before must have ended."""
        assert self._batch is None or self._batch.done(), "a batch begins when the one before has ended"
        self._batch = self._threads.submit(self._run, run)

    def wait(self) -> None:
        """Wait until no batch is under way; raises what the last one has raised."""
        if self._batch is not None:
            self._batch.result()

    def close(self) -> None:
        """Let the thread go; batches have ended."""
        self._threads.shutdown()

    def _run(self, run: Callable[[], None]) -> None:
        try:
            run()
        except BaseException as error:
            self._failed(error)
            raise
