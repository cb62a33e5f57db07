"""Leaving a micro-batch quietly while Spark stops its streaming query."""

from __future__ import annotations

from typing import NoReturn

from pyspark.sql import DataFrame

from anabranch.errors import StateError

LONGEST_MS = 60_000


def await_interrupt(rows: DataFrame) -> NoReturn:
    """Wait until `StreamingQuery.stop()` interrupts the thread of the query, and raise what comes of it.

    Spark looks through what a batch function raises for an interruption, and then ends without a word; all
    else it reports as a failure. Py4J runs this call in the JVM's thread of the query.
    """
    jvm = rows.sparkSession._jvm
    assert jvm is not None
    jvm.java.lang.Thread.sleep(LONGEST_MS)
    raise StateError("the run is being stopped; the batch is repeated by the next one")
