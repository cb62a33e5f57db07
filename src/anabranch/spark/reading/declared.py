"""What users hand to a session, checked before anything is registered."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from anabranch.engine.sinks.shared_sink import SharedSink, shared
from anabranch.engine.sinks.sink import Sink
from anabranch.errors import ConfigError
from anabranch.language.expressions.functions import MOST_DIMENSIONS
from anabranch.language.expressions.types import FLOATING
from anabranch.language.flow import parse_flow
from anabranch.language.syntax.duration import DURATION_HINT, duration_us
from anabranch.plan.logical import Column, Connector, Flow, Stream
from anabranch.plan.vectors import Vector
from anabranch.spark.reading.ingest import TIME_TYPES
from anabranch.spark.reading.malformed import LETTER
from anabranch.spark.reading.sources import stream_frame
from anabranch.spark.sinks.connected_sink import connected_sink
from anabranch.spark.sinks.function_sink import FunctionSink

AnySink = Sink | Connector | SharedSink | Callable[[DataFrame, int], Any] | str
"""What a query may be given as its sink."""


def stream_columns(name: str, frame: DataFrame, time: str) -> tuple[Column, ...]:
    """The columns of a stream, if it is one, with a time column that can be one."""
    if not isinstance(frame, DataFrame):
        raise ConfigError(
            f"stream {name!r} is a {type(frame).__name__}: pass a DataFrame from spark.readStream"
        )
    if not frame.isStreaming:
        raise ConfigError(f"stream {name!r} is not streaming: pass a DataFrame from spark.readStream")
    columns = tuple(
        Column(f.name, f.dataType.simpleString()) for f in frame.schema.fields if f.name != LETTER
    )
    kind = next((c.type for c in columns if c.name.lower() == time.lower()), None)
    if kind is None:
        raise ConfigError(f"stream {name!r} has no column {time!r}: choose from {', '.join(frame.columns)}")
    if kind not in TIME_TYPES:
        raise ConfigError(
            f"the time of stream {name!r} cannot be a {kind}: make {time!r} a timestamp, with "
            f"CAST({time} AS TIMESTAMP) or, of a number, timestamp_seconds or timestamp_millis({time})"
        )
    return columns


def vectors_of(name: str, frame: DataFrame, lengths: Mapping[str, int]) -> list[Vector]:
    """Columns of arrays of a stream of which users say how many numbers they have."""
    found = []
    kinds = {f.name.lower(): (f.name, f.dataType.simpleString()) for f in frame.schema.fields}
    for column, length in lengths.items():
        known, kind = kinds.get(column.lower(), (column, "column that it does not have"))
        number = kind.removeprefix("array<").removesuffix(">")
        if kind == number or number not in FLOATING:
            raise ConfigError(
                f"{column!r} of stream {name!r} cannot be a vector, it is a {kind}: make it an array of "
                f"numbers, with CAST({column} AS ARRAY<DOUBLE>)"
            )
        if not 1 <= length <= MOST_DIMENSIONS:
            raise ConfigError(
                f"vector {column!r} of stream {name!r} cannot have {length!r} numbers: say how many, from 1 "
                f"to {MOST_DIMENSIONS}"
            )
        found.append(Vector(known, number, length))
    return found


def lateness_us(lateness: object) -> int:
    """A length of time in microseconds.

    >>> lateness_us("5 seconds") == lateness_us(timedelta(seconds=5)) == 5_000_000
    True
    """
    if isinstance(lateness, timedelta):
        length: int | None = lateness // timedelta(microseconds=1)
    elif isinstance(lateness, str):
        number, _, unit = lateness.strip().partition(" ")
        length = duration_us(number, unit.strip())
    else:
        length = None
    if length is None or length < 0:
        raise ConfigError(
            f"lateness {lateness!r} is no length of time: write it {DURATION_HINT}, or pass a timedelta"
        )
    return length


def as_sink(spark: SparkSession, query: str, sink: AnySink | None) -> Sink:
    """The sink that is meant."""
    if sink == "console":
        sink = Connector("console")
    if isinstance(sink, SharedSink):
        return shared(as_sink(spark, query, sink.sink))
    if isinstance(sink, Connector):
        return connected_sink(spark, query, sink)
    if isinstance(sink, str):
        raise ConfigError(f'query {query!r}: sink {sink!r}: pass ab.parquet({sink!r}), or "console"')
    if callable(sink):
        return FunctionSink(spark, sink)
    if sink is None or not (hasattr(sink, "open") and hasattr(sink, "publish")):
        raise ConfigError(
            f"query {query!r}: an object of type {type(sink).__name__} is no sink: pass ab.parquet(path), "
            'ab.memory(), "console", or a function (df, batch_id)'
        )
    return sink


def read_flow(path: str | os.PathLike[str]) -> Flow:
    """Parse and bind a flow file."""
    try:
        text = Path(path).read_text(encoding="utf-8-sig")  # some editors put a mark in front
    except FileNotFoundError:
        raise ConfigError(f"there is no flow file {str(path)!r}: give the path of a .sql file") from None
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"flow file {str(path)!r} cannot be read: {error}") from None
    return parse_flow(text, path=str(path))


def bound_by_spark(spark: SparkSession, flow: Flow) -> Flow:
    """The same flow with the columns that Spark tells of every SELECT at ingest."""

    def columns_of(stream: Stream) -> tuple[Column, ...]:
        fields = stream_frame(spark, stream).schema.fields
        return tuple(Column(f.name, f.dataType.simpleString()) for f in fields if f.name != LETTER)

    return parse_flow(flow.text, path=flow.path, columns_of=columns_of)
