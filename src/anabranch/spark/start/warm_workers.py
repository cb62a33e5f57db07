"""Warm workers: Python workers load and compile what queries need while Spark plans the first batch."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence

import pyarrow as pa
from pyspark.sql import SparkSession

from anabranch.language.syntax.patterns import pattern_of
from anabranch.plan.logical import Query, Stream

LONGEST_WAIT_S = 60.0
"""The first batch does not wait longer for workers that others keep busy."""
_warmed: set[str] = set()
"""Spark applications whose workers are warm."""
MOST_QUERIES = 16
"""Queries that workers are warmed up with: there may be thousands."""


def warm_workers(spark: SparkSession, streams: Sequence[Stream], queries: Sequence[Query]) -> _WarmUp:
    """Warm up the workers of a Spark application, once, beside what the caller does next."""
    application = spark.sparkContext.applicationId
    if application in _warmed:
        return _WarmUp(None)
    _warmed.add(application)
    thread = threading.Thread(
        target=_run_a_job,
        args=(spark, streams, of_each_pattern(queries)),
        name="anabranch-warm-up",
        daemon=True,
    )
    thread.start()
    return _WarmUp(thread)


def of_each_pattern(queries: Sequence[Query]) -> tuple[Query, ...]:
    """Some queries that need what all need: those that differ in constants run the same code."""
    first = {pattern_of(query.text): query for query in reversed(queries)}
    return tuple(reversed(first.values()))[:MOST_QUERIES]


class _WarmUp:
    def __init__(self, thread: threading.Thread | None) -> None:
        self._thread = thread
        self._was_waited_for = False

    def wait(self) -> None:
        """Wait until the workers are warm; not again when they were waited for."""
        if not self._was_waited_for:
            self._was_waited_for = True
            self.settle()

    def settle(self) -> None:
        """Wait until the job has ended: workers complain when Spark is gone before they have."""
        if self._thread is not None:
            self._thread.join(LONGEST_WAIT_S)


def _run_a_job(spark: SparkSession, streams: Sequence[Stream], queries: Sequence[Query]) -> None:
    try:
        cores = spark.sparkContext.defaultParallelism
        own = spark.newSession()  # whose settings no one else changes meanwhile
        own.range(cores, numPartitions=cores).mapInArrow(_warming(streams, queries), "id long").count()
    except Exception:  # the first batch does what was not done here
        logging.getLogger("anabranch").debug("warm-up of workers failed", exc_info=True)


def _warming(
    streams: Sequence[Stream], queries: Sequence[Query]
) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    def work(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from anabranch.engine.task.worker.worker_process import end_quietly
        from anabranch.engine.warm_up import warm_up

        end_quietly()
        yield from batches  # an input that is not read kills the worker
        warm_up(streams, queries)

    return work
