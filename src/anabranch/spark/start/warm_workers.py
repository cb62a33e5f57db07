"""Warm workers: Python workers load and compile what queries need while Spark plans the first batch."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence

import pyarrow as pa
from pyspark.sql import SparkSession

from anabranch.plan.logical import Query, Stream

LONGEST_WAIT_S = 60.0
"""The first batch does not wait longer for workers that others keep busy."""
_warmed: set[str] = set()
"""Spark applications whose workers are warm."""


def warm_workers(spark: SparkSession, streams: Sequence[Stream], queries: Sequence[Query]) -> _WarmUp:
    """Warm up the workers of a Spark application, once, beside what the caller does next."""
    application = spark.sparkContext.applicationId
    if application in _warmed:
        return _WarmUp(None)
    _warmed.add(application)
    thread = threading.Thread(
        target=_run_a_job, args=(spark, streams, queries), name="anabranch-warm-up", daemon=True
    )
    thread.start()
    return _WarmUp(thread)


class _WarmUp:
    def __init__(self, thread: threading.Thread | None) -> None:
        self._thread = thread

    def wait(self) -> None:
        """Wait until the workers are warm; at once when they have been."""
        if self._thread is not None:
            self._thread.join(LONGEST_WAIT_S)
            self._thread = None


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
        from anabranch.engine.warm_up import warm_up

        yield from batches  # an input that is not read kills the worker
        warm_up(streams, queries)

    return work
