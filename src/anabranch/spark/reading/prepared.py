"""From what a source brings to a stream's rows: bytes that hold rows, and the SELECT of a flow file.

Malformed rows go through it untouched: they keep the text of their letter, and nothing else of them counts.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from anabranch.errors import ConfigError
from anabranch.language.ingest.ingest_sql import HIDDEN
from anabranch.plan.ingest_select import Explosion, IngestSelect
from anabranch.plan.logical import Column, Connector, Stream
from anabranch.plan.vectors import Vector, vectors_in
from anabranch.spark.reading.malformed import LETTER
from anabranch.spark.reading.payload import payload_rows
from anabranch.spark.spark_reason import spark_reason
from anabranch.spark.start.conf import conf_set


class IngestError(ConfigError):
    """Spark refuses a SELECT at ingest; `item` says which part of its list, if it is one."""

    def __init__(self, message: str, item: int | None = None) -> None:
        super().__init__(message)
        self.item = item


def same_everywhere(spark: SparkSession) -> AbstractContextManager[None]:
    """What expressions mean while they are analysed, whatever the session is set to.

    Spark fixes the zone and what happens to values that cannot be computed (NULL, not the end of the
    stream) when it resolves an expression.
    """
    return conf_set(spark, {"spark.sql.session.timeZone": "UTC", "spark.sql.ansi.enabled": "false"})


def prepare(stream: Stream, frame: DataFrame) -> DataFrame:
    """The stream's rows, made of those of its source."""
    preparation = stream.prepared
    if preparation is None:
        return frame
    with same_everywhere(frame.sparkSession):
        if preparation.payload is not None:
            frame = _parsed(stream.name, frame, preparation.payload, preparation.declared)
        if preparation.select is None:
            if vectors := vectors_in(stream.columns):
                frame = _taken_apart(frame, [c.name for c in preparation.declared], vectors)
            return frame.selectExpr(*_letter(frame, [_quote(c.name) for c in stream.columns]))
        return _selected(preparation.select, frame)


def with_vectors(frame: DataFrame, vectors: Sequence[Vector]) -> DataFrame:
    """Rows with a column for each number of some of their arrays."""
    names = [name for name in frame.columns if name != LETTER]
    with same_everywhere(frame.sparkSession):
        return _taken_apart(frame, names, {vector.name.lower(): vector for vector in vectors})


def _taken_apart(frame: DataFrame, declared: Sequence[str], vectors: Mapping[str, Vector]) -> DataFrame:
    """The rows with a column for each number of their vectors; those with other arrays are malformed."""
    row = f"to_json(struct({', '.join(map(_quote, declared))}))"
    cases, parts = [], []
    for vector in vectors.values():
        name = _quote(vector.name)
        wrong = f"size({name}) <> {vector.length} OR exists({name}, number -> number IS NULL)"
        cases.append(
            f"WHEN {name} IS NOT NULL AND ({wrong}) THEN concat('{vector.malformed}', chr(10), {row})"
        )
        parts += [f"get({name}, {i}) AS {_quote(part.name)}" for i, part in enumerate(vector.elements)]
    letter = f"CASE {' '.join(cases)} END"
    if LETTER in frame.columns:
        letter = f"coalesce({_quote(LETTER)}, {letter})"
    others = [_quote(name) for name in frame.columns if name != LETTER and name.lower() not in vectors]
    return frame.selectExpr(*others, *parts, f"{letter} AS {_quote(LETTER)}")


def _parsed(name: str, frame: DataFrame, payload: Connector, declared: Sequence[Column]) -> DataFrame:
    try:
        return payload_rows(frame, payload, declared)
    except (PySparkException, Py4JError) as error:
        reason = spark_reason(error)
        raise ConfigError(f"stream {name!r} cannot be read as {payload.format}: {reason}") from error


def _selected(select: IngestSelect, frame: DataFrame) -> DataFrame:
    try:
        return _apply(select, frame)
    except (PySparkException, Py4JError) as error:
        raise IngestError(spark_reason(error), _failing(select, frame)) from error


def _failing(select: IngestSelect, frame: DataFrame) -> int | None:
    """The first item that Spark refuses on its own."""
    for number, item in enumerate(select.items):
        try:
            _apply(select, frame, [item])
        except (PySparkException, Py4JError):
            return number
    return None


def _apply(select: IngestSelect, frame: DataFrame, items: Sequence[str] | None = None) -> DataFrame:
    for name, sql in select.computed:
        frame = frame.selectExpr("*", f"{sql} AS `{name}`")
    for explosion in select.before:
        frame = _exploded(frame, explosion)
    if select.where is not None:
        kept = f"`{LETTER}` IS NOT NULL OR ({select.where})" if LETTER in frame.columns else select.where
        frame = frame.where(kept)
    for explosion in select.after:
        frame = _exploded(frame, explosion)
    wanted = [sql for item in items or select.items for sql in _spelled_out(item, frame)]
    frame = frame.selectExpr(*_letter(frame, wanted))
    return frame if items or not select.vectors else with_vectors(frame, select.vectors)


def _spelled_out(item: str, frame: DataFrame) -> list[str]:
    """`*` without what is only there in between."""
    if item != "*":
        return [item]
    return [_quote(name) for name in frame.columns if not name.startswith(HIDDEN)]


def _exploded(frame: DataFrame, explosion: Explosion) -> DataFrame:
    names = ", ".join(map(_quote, explosion.names))
    function, argument = explosion.function, explosion.argument
    if LETTER in frame.columns:
        if not explosion.outer:
            frame = frame.where(f"`{LETTER}` IS NOT NULL OR coalesce(size({argument}) > 0, FALSE)")
        function, argument = f"{function}_outer", f"IF(`{LETTER}` IS NULL, {argument}, NULL)"
    elif explosion.outer:
        function = f"{function}_outer"
    return frame.selectExpr("*", f"{function}({argument}) AS ({names})")


def _letter(frame: DataFrame, columns: Sequence[str]) -> list[str]:
    return [*columns, *([LETTER] if LETTER in frame.columns else [])]


def _quote(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"
