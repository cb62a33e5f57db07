"""The function that Spark calls with every micro-batch.

PySpark's own wraps the session of the rows in every batch, which takes a dozen calls of the JVM; here it is
wrapped once for a query of Spark, so that it is also told from another one's.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from py4j.java_gateway import JavaObject
from pyspark.java_gateway import ensure_callback_server_started
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.readwriter import DataStreamWriter

_PACKAGE = "org.apache.spark.sql.execution.streaming.sources"


def for_each_batch(
    writer: DataStreamWriter, spark: SparkSession, process: Callable[[DataFrame, int], None]
) -> DataStreamWriter:
    """As `DataStreamWriter.foreachBatch`."""
    context: Any = spark.sparkContext
    helper = getattr(context._jvm, f"{_PACKAGE}.PythonForeachBatchHelper")
    classic: Any = writer
    helper.callForeachBatch(classic._jwrite, _BatchFunction(spark, process))
    start_callbacks: Any = ensure_callback_server_started
    start_callbacks(context._gateway)
    return writer


class _BatchFunction:
    def __init__(self, spark: SparkSession, process: Callable[[DataFrame, int], None]) -> None:
        self._spark, self._process = spark, process
        self._session: SparkSession | None = None

    def call(self, rows: JavaObject, batch: int) -> None:
        """Spark calls it."""
        if self._session is None:
            make: Any = SparkSession
            self._session = make(self._spark.sparkContext, rows.sparkSession())
        make_frame: Any = DataFrame
        self._process(make_frame(rows, self._session), batch)

    class Java:
        implements = (f"{_PACKAGE}.PythonForeachBatchFunction",)
