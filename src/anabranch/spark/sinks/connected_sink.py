"""From `INTO format 'path' OPTIONS (…)` to a sink; what would be ignored, or fail later, is refused."""

from __future__ import annotations

from pyspark.sql import SparkSession

from anabranch.engine.sinks.compression import compression_of
from anabranch.engine.sinks.console_sink import ConsoleSink
from anabranch.engine.sinks.memory_sink import MemorySink
from anabranch.engine.sinks.parquet_sink import ParquetSink, parquet_options
from anabranch.engine.sinks.shared_sink import declared_shared, shared
from anabranch.engine.sinks.sink import Sink
from anabranch.errors import ConfigError
from anabranch.plan.logical import Connector
from anabranch.spark.kafka.kafka_sink import KafkaSink
from anabranch.spark.sinks.writer_sink import FILE_FORMATS, WriterSink

_OPTIONS = {"parquet": ("compression", "partitionBy", "compactEvery"), "console": ("numRows",), "memory": ()}
"""Formats that are not left to Spark, with their options, beside `shared`."""


def connected_sink(spark: SparkSession, query: str, connector: Connector) -> Sink:
    """The sink that a connector names."""
    connector, is_shared = declared_shared(connector)
    sink = _connected(spark, query, connector)
    return shared(sink) if is_shared else sink


def _connected(spark: SparkSession, query: str, connector: Connector) -> Sink:
    kind = connector.format.lower()
    options = _checked_options(query, connector)
    if kind in ("console", "memory") and connector.path:
        raise ConfigError(f"query {query!r}: {kind} takes no path: remove {connector.path!r}")
    if kind in FILE_FORMATS and not (connector.path or "path" in options):
        raise ConfigError(f"query {query!r}: {kind} needs a directory: write INTO {kind} 'path'")
    match kind:
        case "parquet":
            assert connector.path is not None
            compression_of(connector)
            _whole(query, "compactEvery", options.get("compactevery", "0"))
            return ParquetSink(connector.path, **parquet_options(connector))
        case "console":
            return ConsoleSink(_whole(query, "numRows", options["numrows"])) if options else ConsoleSink()
        case "memory":
            return MemorySink()
        case "kafka":
            return KafkaSink(spark, query, connector.path, dict(connector.options))
    return WriterSink(spark, connector.format, connector.path, dict(connector.options))


def _checked_options(query: str, connector: Connector) -> dict[str, str]:
    """Options by lower-case name, as Spark compares them."""
    options = {name.lower(): value for name, value in connector.options}
    allowed = _OPTIONS.get(connector.format.lower())
    for name, _ in connector.options:
        if allowed is not None and name.lower() not in map(str.lower, allowed):
            hint = f"choose from {', '.join(allowed)}" if allowed else "it takes none"
            raise ConfigError(f"query {query!r}: {connector.format} has no option {name!r}: {hint}")
    return options


def _whole(query: str, option: str, text: str) -> int:
    if not text.isdecimal():
        raise ConfigError(f"query {query!r}: {option} = {text!r}: a whole number is needed")
    return int(text)
