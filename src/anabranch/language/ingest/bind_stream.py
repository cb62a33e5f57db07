"""CREATE STREAM and CREATE TABLE, checked: columns, time, and what Spark does with the source first."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from sqlglot import exp

from anabranch.errors import ConfigError
from anabranch.language.binding.scope import check_name, is_substituted
from anabranch.language.expressions.types import UNKNOWN, Refusal, type_name
from anabranch.language.ingest.ingest_columns import known_columns, source_columns
from anabranch.language.ingest.ingest_select import read_ingest_select
from anabranch.language.ingest.ingest_sql import spark_ddl
from anabranch.language.ingest.vector_column import refuse_length, vector_of
from anabranch.language.syntax.source_text import SourceText
from anabranch.language.syntax.statements import CreateStream, CreateTable
from anabranch.plan.logical import Column, Preparation, Stream, Table

PAYLOADS = ("json", "csv", "avro")
"""Formats in which the bytes of a source can be."""
_TEXT_OF_FILES = ("json", "csv", "avro", "parquet", "orc", "xml")
"""Sources that read their format by themselves, with declared columns."""


def bind_stream(
    statement: CreateStream,
    source: SourceText,
    columns_of: Callable[[Stream], tuple[Column, ...]] | None = None,
) -> Stream:
    """The stream that a statement declares; with a SELECT, its columns are what `columns_of` tells."""
    name = check_name(statement.name, "stream name", source)
    declared = _declared(statement, source)
    _check_payload(statement, source)
    if statement.select is None:
        columns = _taken_apart(statement, declared)
        is_prepared = statement.payload is not None or columns != declared
        prepared = Preparation(declared, statement.payload) if is_prepared else None
        _refuse_element_names(statement, columns, source)
        time = _time(statement, columns, source)
        return Stream(name, columns, time, statement.lateness_us, statement.source, prepared)
    read = source_columns(statement.source.format, declared)
    select = read_ingest_select(statement.select, source, [column.name for column in read or ()])
    known = known_columns(statement.select, read) or ()
    stream = Stream(
        name,
        known,
        statement.time.name,
        statement.lateness_us,
        statement.source,
        Preparation(declared, statement.payload, select),
    )
    if columns_of is not None:
        try:
            known = columns_of(stream)
        except ConfigError as error:
            place = getattr(error, "item", None)
            start = select.starts[place if place is not None else 0]
            raise source.error_at(start, str(error), "see docs/ingest.md") from error
    if known:
        _refuse_repeated(statement, known, source)
    time = _time(statement, known, source) if known else statement.time.name
    return Stream(name, known, time, stream.lateness_us, stream.source, stream.prepared)


def bind_table(statement: CreateTable, source: SourceText) -> Table:
    """The table that a statement declares."""
    name = check_name(statement.name, "table name", source)
    columns = _columns(statement.columns, source, nested=False)
    return Table(name, columns, statement.source, statement.refresh_us)


def _declared(statement: CreateStream, source: SourceText) -> tuple[Column, ...]:
    columns = _columns(statement.columns, source, nested=statement.select is not None)
    if not columns and (statement.select is None or statement.source.format.lower() in _TEXT_OF_FILES):
        what = "the stream's columns" if statement.select is None else "the columns of its files"
        raise source.error(
            statement.name,
            f"stream {statement.name.name!r} does not say {what}",
            f"write CREATE STREAM {statement.name.name} (id BIGINT, ts TIMESTAMP) FROM …",
        )
    return columns


def _columns(
    declared: Sequence[tuple[exp.Identifier, exp.DataType]], source: SourceText, *, nested: bool
) -> tuple[Column, ...]:
    columns: list[Column] = []
    for identifier, kind in declared:
        try:
            # What a SELECT takes apart may be of any type; what queries use may not.
            if nested:
                refuse_length(identifier.name, kind)
            vector = None if nested else vector_of(identifier.name, kind)
            found = (
                spark_ddl(kind).lower()
                if nested
                else type_name(kind)
                if vector is None
                else vector.array.type
            )
            columns.append(Column(identifier.name, found))
        except Refusal as refusal:
            raise source.error(identifier, refusal.message, refusal.suggestion) from None
        if is_substituted(identifier.name):
            raise source.error(
                identifier,
                f"Spark would replace the ${{…}} in column {identifier.name!r}",
                "rename the column",
            )
        if sum(column.name.lower() == identifier.name.lower() for column in columns) > 1:
            raise source.error(
                identifier, f"column {identifier.name!r} is declared twice", "rename one of them"
            )
    return tuple(columns)


def _taken_apart(statement: CreateStream, declared: Sequence[Column]) -> tuple[Column, ...]:
    """The columns with the numbers of vectors in the place of arrays."""
    found: list[Column] = []
    for column, (_, kind) in zip(declared, statement.columns, strict=True):
        vector = vector_of(column.name, kind)
        found += [column] if vector is None else vector.elements
    return tuple(found)


def _refuse_element_names(statement: CreateStream, columns: Sequence[Column], source: SourceText) -> None:
    """A column must not be called as a number of a vector is."""
    names = [column.name.lower() for column in columns]
    for identifier, _ in statement.columns:
        if names.count(identifier.name.lower()) > 1:
            message = f"column {identifier.name!r} is a number of a vector, too"
            raise source.error(identifier, message, "rename one of them")


def _check_payload(statement: CreateStream, source: SourceText) -> None:
    payload = statement.payload
    if payload is None:
        return
    if payload.format not in PAYLOADS or payload.path is not None:
        raise source.error_at(
            statement.payload_start,
            f"FORMAT {payload.format} is not supported",
            f"write one of {', '.join(PAYLOADS)}, or CREATE STREAM … AS SELECT",
        )
    if statement.source.format.lower() in _TEXT_OF_FILES:
        raise source.error_at(
            statement.payload_start,
            f"FORMAT is for bytes such as Kafka's, and {statement.source.format} files are read as declared",
            "leave FORMAT out",
        )
    if not statement.columns:
        raise source.error_at(
            statement.payload_start,
            f"FORMAT {payload.format} needs the columns to read",
            f"write CREATE STREAM {statement.name.name} (id BIGINT, ts TIMESTAMP) FROM …",
        )


def _refuse_repeated(statement: CreateStream, columns: Sequence[Column], source: SourceText) -> None:
    names = [column.name.lower() for column in columns]
    repeated = next((name for name in names if names.count(name) > 1), None)
    if repeated is not None:
        assert statement.select is not None
        raise source.error_at_keyword(
            statement.select,
            "SELECT",
            f"two columns of stream {statement.name.name} are called {repeated!r}",
            f"rename one: … AS {repeated}_2",
        )


def _time(statement: CreateStream, columns: Sequence[Column], source: SourceText) -> str:
    time = next((c for c in columns if c.name.lower() == statement.time.name.lower()), None)
    if time is None:
        names = ", ".join(column.name for column in columns)
        raise source.error(
            statement.time, f"unknown column {statement.time.name!r}", f"the columns are {names}"
        )
    usable = ("timestamp", UNKNOWN) if statement.select is not None else ("timestamp",)
    if time.type not in usable:
        instead = f"declare {time.name} TIMESTAMP"
        if statement.select is not None:
            instead = f"write CAST(… AS TIMESTAMP) AS {time.name}, or timestamp_millis(…) AS {time.name}"
        raise source.error(
            statement.time, f"TIME needs a TIMESTAMP, and {time.name} is a {time.type}", instead
        )
    return time.name
