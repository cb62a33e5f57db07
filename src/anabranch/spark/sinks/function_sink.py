"""The function sink: results as a DataFrame, as `foreachBatch` gives them."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from anabranch.engine.sinks.sink import ResultBatch


class FunctionSink:
    """A Python function `(df, batch_id)`, like `foreachBatch`.

    The id is the number of the committed step, so that a function may skip ids that it has seen.
    """

    only_rows = True

    def __init__(self, spark: SparkSession, function: Callable[[DataFrame, int], Any]) -> None:
        self._spark = spark
        self._function = function

    @property
    def key(self) -> tuple[str, int, str]:
        """The same for sinks that call one function."""
        function = self._function
        return "object", id(getattr(function, "__self__", function)), getattr(function, "__name__", "")

    def open(self, query: str, schema: pa.Schema) -> None:
        """Nothing to prepare."""

    def publish(self, results: ResultBatch) -> None:
        if results.files:
            self._function(read_results(self._spark, results), results.number)


def read_results(spark: SparkSession, results: ResultBatch) -> DataFrame:
    return spark.read.parquet(*(os.fspath(f) for f in results.files))
