"""Sources: opened under stable names, so that streams can come, go and change places at a restart.

Spark tells the sources of a query apart by position unless every one of them has a name and
`spark.sql.streaming.queryEvolution.enableSourceEvolution` is set. Streams of a flow file are named by
us. DataFrames made by the user carry names if the user gave them and set that conf; otherwise the set
of streams and their order are fixed for the life of a checkpoint.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from anabranch.errors import ConfigError, StateError
from anabranch.plan.logical import Stream
from anabranch.queries.catalog import Catalog
from anabranch.spark.conf import conf_set
from anabranch.spark.kafka.connector import connector_missing, is_kafka, lacks_connector
from anabranch.spark.malformed import OPTION, RAW, keeps_raw

FILES = frozenset({"avro", "csv", "json", "orc", "parquet", "text", "xml"})
"""Formats that are told which columns to read; other sources have columns of their own."""
EVOLUTION = "spark.sql.streaming.queryEvolution.enableSourceEvolution"


@contextmanager
def source_names(spark: SparkSession, streams: Sequence[Stream]) -> Iterator[bool]:
    """Whether sources are told apart by name; while inside, Spark is set accordingly."""
    if spark.conf.get(EVOLUTION, "false") == "true":
        yield True
    elif any(s.source is None for s in streams):
        yield False
    else:
        with conf_set(spark, {EVOLUTION: "true"}):
            yield True


def open_sources(
    spark: SparkSession, streams: Sequence[Stream], given: Mapping[str, DataFrame], *, by_name: bool
) -> dict[str, DataFrame]:
    """DataFrames of all streams: those given, and those of a flow file opened now."""
    return {s.name: given[s.name] if s.name in given else _open(spark, s, by_name=by_name) for s in streams}


def check_sources(catalog: Catalog, remembered: Mapping[str, Any]) -> None:
    """Refuse what would make Spark go on with one source from the offsets of another."""
    before = remembered.get("sources")
    if before is None:
        return
    if before["by_name"] and not catalog.sources_by_name:
        raise StateError(
            "the checkpoint tells its sources apart by name: give every source a name (.name(…) on its "
            f"reader) and set {EVOLUTION} = true before making them, as in the run that began it"
        )
    if catalog.sources_by_name and not before["by_name"]:
        raise StateError(
            "the checkpoint tells its sources apart by position, and now they have names, which Spark cannot "
            "reconcile: use the DataFrames of the run that began it, or start with a new checkpoint"
        )
    if not catalog.sources_by_name and before["order"] != catalog.sources:
        raise StateError(
            f"the streams that queries read were {_listed(before['order'])}, in this order, and are now "
            f"{_listed(catalog.sources)}. Spark tells sources without names apart by position and would mix "
            "up their offsets: keep the streams and their order; or start with a new checkpoint and either "
            f"declare the streams in a flow file, or name the sources (.name(…)) with {EVOLUTION} = true"
        )


def _open(spark: SparkSession, stream: Stream, *, by_name: bool) -> DataFrame:
    assert stream.source is not None
    reader = spark.readStream.format(stream.source.format).options(**dict(stream.source.options))
    if by_name:
        reader = reader.name(source_name(stream.name))
    try:
        if stream.source.format.lower() in FILES:
            schema = ", ".join(f"`{c.name}` {c.type}" for c in stream.columns)
            if keeps_raw(stream):
                reader, schema = reader.option(OPTION, RAW), f"{schema}, `{RAW}` string"
            return reader.schema(schema).load(stream.source.path)
        if is_kafka(stream.source.format) and stream.source.path:
            frame = reader.option("subscribe", stream.source.path).load()
        else:
            frame = reader.load(stream.source.path)
    except (PySparkException, Py4JError) as error:
        if is_kafka(stream.source.format) and lacks_connector(error):
            raise ConfigError(connector_missing(f"stream {stream.name!r}")) from error
        raise ConfigError(f"stream {stream.name!r} cannot be opened: {_reason(error)}") from error
    _check_columns(stream, frame)
    return frame


def _check_columns(stream: Stream, frame: DataFrame) -> None:
    """Whether a source that has columns of its own has those that were declared."""
    assert stream.source is not None
    found = {field.name.lower(): field.dataType.simpleString() for field in frame.schema}
    if any(found.get(c.name.lower()) != c.type for c in stream.columns):
        columns = ", ".join(f"{name} {type_}" for name, type_ in found.items())
        raise ConfigError(
            f"stream {stream.name!r}: a {stream.source.format} source has the columns {columns}: declare "
            "these, or make them into others in Python and give the DataFrame to session.stream"
        )


def source_name(stream: str) -> str:
    """The name of a stream's source in Spark's checkpoint: letters, digits and _ only.

    >>> source_name("orders"), source_name("größe")
    ('stream_orders', 'stream_gr_f6__df_e')
    """
    return "stream_" + re.sub(r"[^A-Za-z0-9]", lambda c: "_" if c[0] == "_" else f"_{ord(c[0]):x}_", stream)


def _reason(error: Exception) -> str:
    """The line with Spark's error class, or the first one."""
    found = re.search(r"\[[A-Z][A-Z_.]+\] ([^\n]+?)(?: SQLSTATE|\n|$)", str(error))
    return found[1] if found else str(error).splitlines()[0]


def _listed(names: Sequence[str]) -> str:
    return ", ".join(names)
