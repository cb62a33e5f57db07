"""Leaving a micro-batch quietly while Spark stops its streaming query."""

from __future__ import annotations

from typing import NoReturn

from py4j.protocol import Py4JJavaError
from pyspark.sql import DataFrame

from anabranch.errors import StateError

LONGEST_MS = 60_000


class Interrupted(Exception):
    """A batch was interrupted, in the words that Spark looks for in what a batch function raises.

    Spark searches the text behind these words by a regular expression that takes a call of Java for every
    character: the stack trace of an interruption overflows Java's stack while the JVM is cold. So these
    words are all there is.
    """

    def __init__(self) -> None:
        super().__init__(
            "py4j.protocol.Py4JJavaError: An error occurred while calling the batch: "
            "java.lang.InterruptedException"
        )


def await_interrupt(rows: DataFrame) -> NoReturn:
    """Wait until `StreamingQuery.stop()` interrupts the thread of the query, and raise what Spark expects.

    Spark looks through what a batch function raises for an interruption, and then ends without a word; all
    else it reports as a failure. Py4J runs this call in the JVM's thread of the query.
    """
    jvm = rows.sparkSession._jvm
    assert jvm is not None
    try:
        jvm.java.lang.Thread.sleep(LONGEST_MS)
    except Py4JJavaError:
        raise Interrupted from None
    raise StateError("the run is being stopped; the batch is repeated by the next one")
