"""The writer sink: any format that Spark can append to."""

from __future__ import annotations

import difflib
import re

import pyarrow as pa
from pyspark.sql import SparkSession

from anabranch.engine.sinks.sink import ResultBatch
from anabranch.errors import ConfigError
from anabranch.spark.sinks.function_sink import read_results

FILE_FORMATS = ("parquet", "json", "csv", "orc", "text", "xml")
"""Formats of files that every Spark has."""


class WriterSink:
    """Any format that Spark can append to; at least once, as the format allows."""

    only_rows = True

    def __init__(self, spark: SparkSession, kind: str, path: str | None, options: dict[str, str]) -> None:
        self._spark = spark
        self._format = kind
        self._path = path
        self._options = options

    @property
    def key(self) -> tuple[str, str] | None:
        """The same for sinks that append to one path."""
        path = self._path or next((v for k, v in self._options.items() if k.lower() == "path"), None)
        return None if path is None else (self._format.lower(), path)

    @property
    def options(self) -> dict[str, str]:
        """What the format was given beside its path."""
        return self._options

    def open(self, query: str, schema: pa.Schema) -> None:
        """Refuse a format that Spark does not have, before there are results for it."""
        if self._format.lower() in FILE_FORMATS:
            return
        try:
            self._spark.read.format(self._format).load()
        except Exception as error:
            # Any other complaint, about options or a path to read from, comes from a format that is there.
            if re.search(r"DATA_SOURCE_NOT_(FOUND|ENABLED)\]", str(error)):
                raise ConfigError(_unknown_format(query, self._format)) from error

    def publish(self, results: ResultBatch) -> None:
        if results.files:
            frame = read_results(self._spark, results)
            frame.write.format(self._format).options(**self._options).mode("append").save(self._path)


def _unknown_format(query: str, kind: str) -> str:
    near = difflib.get_close_matches(kind.lower(), (*FILE_FORMATS, "console", "memory"), n=1)
    hint = f"did you mean {near[0]}?" if near else "is its package in spark.jars.packages?"
    return f"query {query!r} cannot be written INTO {kind}: Spark has no such format; {hint}"
