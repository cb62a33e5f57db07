"""Settings of a Spark session that hold for a while: set, used, put back."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from anabranch.engine.task.arrival.wire import Wire
from anabranch.spark.start.log_files import MANAGER

_FILE_MANAGER = "spark.sql.streaming.checkpointFileManagerClass"


_ARROW_ROWS = 1 << 13
_ARROW_ROWS_WITH_TEXT = 1 << 10
"""Rows of an Arrow batch; of text there are at most 2 GiB in one, so that a row may have a MiB."""


def batch_conf(wire: Wire) -> dict[str, str]:
    """Settings of the job that a micro-batch is."""
    has_text = any(lane_type in ("string", "binary") for _, lane_type in wire.lanes)
    return {
        "spark.sql.adaptive.enabled": "false",  # the exchange is steered by us, partition by partition
        # A hop that runs again sends other bytes: tasks of the next one must not read some of either.
        "spark.sql.shuffle.orderIndependentChecksum.enabled": "true",
        "spark.sql.shuffle.orderIndependentChecksum.enableFullRetryOnMismatch": "true",
        # Spark measures an Arrow batch after every row unless this is the largest number there is: half of
        # the time that a slot's rows take to reach Python. The number of rows bounds batches instead.
        "spark.sql.execution.arrow.maxBytesPerBatch": str((1 << 31) - 1),
        "spark.sql.execution.arrow.maxRecordsPerBatch": str(
            _ARROW_ROWS_WITH_TEXT if has_text else _ARROW_ROWS
        ),
    }


@contextmanager
def conf_set(spark: SparkSession, settings: Mapping[str, str]) -> Iterator[None]:
    """Set configuration values for as long as the block runs."""
    before = {key: spark.conf.get(key, None) for key in settings}
    try:
        for key, value in settings.items():
            spark.conf.set(key, value)
        yield
    finally:
        for key, old in before.items():
            if old is None:
                spark.conf.unset(key)
            else:
                spark.conf.set(key, old)


def cheap_logs(spark: SparkSession) -> dict[str, str]:
    """What makes Spark write its logs of offsets and commits without starting processes.

    The manager of files for it (`log_files`) renames as atomically on a POSIX disk as Spark's default does;
    two writers at once, which only the default keeps apart, are kept apart by our fence. Whoever has chosen
    a manager keeps it.
    """
    # Where threads of Python are not tied to threads of the JVM, another one than ours may start the query.
    pinned = os.environ.get("PYSPARK_PIN_THREAD", "true").lower() == "true"
    chosen = spark.conf.get(_FILE_MANAGER, None)
    settings = {_FILE_MANAGER: MANAGER} if pinned and not chosen else {}
    if spark.conf.get("spark.ui.enabled", "true") == "false":
        # Every job comes with its plan as text for the page, in this form or in one that costs more.
        settings["spark.sql.ui.explainMode"] = "simple"
    return settings


def await_sources(query: StreamingQuery) -> None:
    """Wait until a started query has made its sources, which read their settings at that moment."""
    while query.isActive and query.status["message"].startswith("Initializing"):
        time.sleep(0.005)
