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
from anabranch.spark.kafka.connector import connector_missing, is_kafka, lacks_connector
from anabranch.spark.reading.malformed import LETTER, OPTION, RAW, keeps_raw, letter
from anabranch.spark.reading.prepared import prepare
from anabranch.spark.spark_reason import spark_reason
from anabranch.spark.start.conf import conf_set

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
    return {
        s.name: given[s.name] if s.name in given else stream_frame(spark, s, by_name=by_name) for s in streams
    }


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


def stream_frame(spark: SparkSession, stream: Stream, *, by_name: bool = False) -> DataFrame:
    """The rows of a stream of a flow file: its source, and what is made of it."""
    frame = _open(spark, stream, by_name=by_name)
    if stream.prepared is None and stream.source is not None and stream.source.format.lower() not in FILES:
        _check_columns(stream, frame)
    return prepare(stream, frame)


def _open(spark: SparkSession, stream: Stream, *, by_name: bool) -> DataFrame:
    assert stream.source is not None
    reader = spark.readStream.format(stream.source.format).options(**dict(stream.source.options))
    if by_name:
        reader = reader.name(source_name(stream.name))
    prepared = stream.prepared
    declared = stream.columns if prepared is None else () if prepared.payload else prepared.declared
    kind = stream.source.format.lower()
    try:
        if kind in FILES and declared:
            schema = ", ".join(f"`{c.name}` {c.type}" for c in declared)
            if not keeps_raw(stream):
                return reader.schema(schema).load(stream.source.path)
            reader = reader.option(OPTION, RAW).schema(f"{schema}, `{RAW}` string")
            names = {c.name: f"`{c.name}`" for c in declared}
            dead = letter(kind, names, raw=f"`{RAW}`")
            return reader.load(stream.source.path).selectExpr(*names.values(), f"{dead} AS `{LETTER}`")
        topic = stream.source.path if is_kafka(kind) else None
        return reader.load(stream.source.path) if topic is None else reader.option("subscribe", topic).load()
    except (PySparkException, Py4JError) as error:
        if is_kafka(kind) and lacks_connector(error):
            raise ConfigError(connector_missing(f"stream {stream.name!r}")) from error
        raise ConfigError(f"stream {stream.name!r} cannot be opened: {spark_reason(error)}") from error


def _check_columns(stream: Stream, frame: DataFrame) -> None:
    """Whether a source that has columns of its own has those that were declared."""
    assert stream.source is not None
    found = {field.name.lower(): field.dataType.simpleString() for field in frame.schema}
    if any(found.get(c.name.lower()) != c.type for c in stream.columns):
        columns = ", ".join(f"{name} {type_}" for name, type_ in found.items())
        raise ConfigError(
            f"stream {stream.name!r}: a {stream.source.format} source has the columns {columns}: declare "
            "these, or make them into others with FORMAT, or with CREATE STREAM … AS SELECT"
        )


def source_name(stream: str) -> str:
    """The name of a stream's source in Spark's checkpoint: letters, digits and _ only.

    >>> source_name("orders"), source_name("größe")
    ('stream_orders', 'stream_gr_f6__df_e')
    """
    return "stream_" + re.sub(r"[^A-Za-z0-9]", lambda c: "_" if c[0] == "_" else f"_{ord(c[0]):x}_", stream)


def _listed(names: Sequence[str]) -> str:
    return ", ".join(names)
