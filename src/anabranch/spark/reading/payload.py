"""Bytes that hold rows, such as the values of Kafka: read as the declared columns, or kept as malformed."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from pyspark.sql import DataFrame

from anabranch.errors import ConfigError
from anabranch.language.expressions.constants import spark_constant
from anabranch.language.expressions.types import decimal_digits
from anabranch.plan.logical import Column, Connector
from anabranch.spark.reading.malformed import LETTER, RAW, letter

_VALUE = "value"
_PARSED = "__anabranch_parsed"
_READ = "__anabranch_read"
_SCHEMA_OPTION = "avroschema"
_AVRO = {
    "boolean": "boolean",
    "tinyint": "int",
    "smallint": "int",
    "int": "int",
    "bigint": "long",
    "float": "float",
    "double": "double",
    "string": "string",
    "binary": "bytes",
    "date": {"type": "int", "logicalType": "date"},
    "timestamp": {"type": "long", "logicalType": "timestamp-micros"},
    "timestamp_ntz": {"type": "long", "logicalType": "local-timestamp-micros"},
}


def payload_rows(frame: DataFrame, payload: Connector, declared: Sequence[Column]) -> DataFrame:
    """Rows with the declared columns, and beside them those of the source's own that have other names."""
    if _VALUE not in frame.columns:
        raise ConfigError(
            f"FORMAT {payload.format} reads the column `value`, and the source has "
            f"{', '.join(frame.columns)}: write CREATE STREAM … AS SELECT from_json(…).*"
        )
    parse = _avro if payload.format == "avro" else _text
    parsed, dead = parse(payload, declared)
    names = {c.name.lower() for c in declared}
    others = [f"`{name}`" for name in frame.columns if name.lower() not in names]
    read = frame.selectExpr("*", f"{parsed} AS `{_PARSED}`")
    fields = [f"`{_PARSED}`.{_quote(c.name)} AS {_quote(c.name)}" for c in declared]
    return read.selectExpr(*fields, *others, f"{dead} AS `{LETTER}`")


def _text(payload: Connector, declared: Sequence[Column]) -> tuple[str, str]:
    """Spark SQL of the struct that text holds, and of the letter of text that does not."""
    options = {**dict(payload.options), "mode": "PERMISSIVE", "columnNameOfCorruptRecord": RAW}
    schema = ", ".join(f"{_quote(c.name)} {c.type}" for c in declared) + f", `{RAW}` string"
    pairs = ", ".join(f"{_constant(key)}, {_constant(value)}" for key, value in options.items())
    sql = f"from_{payload.format}(CAST(`{_VALUE}` AS STRING), {_constant(schema)}, map({pairs}))"
    where = {c.name: f"`{_PARSED}`.{_quote(c.name)}" for c in declared}
    return sql, letter(payload.format, where, raw=f"`{_PARSED}`.`{RAW}`")


def _avro(payload: Connector, declared: Sequence[Column]) -> tuple[str, str]:
    """The same for a record of Avro.

    Of bytes that are no such record Spark makes one in which all is NULL. A field that the reader asks for
    and no writer knows has its default value in records alone.
    """
    options = {key.lower(): value for key, value in payload.options}
    written = avro_schema(declared)
    if given := options.get(_SCHEMA_OPTION):
        written = _given_schema(given)
    asked = {**written, "fields": [*written["fields"], {"name": _READ, "type": "boolean", "default": True}]}
    schema, reader = _constant(json.dumps(written)), _constant(json.dumps(asked))
    sql = f"from_avro(`{_VALUE}`, {schema}, map('mode', 'PERMISSIVE', 'avroSchema', {reader}))"
    why = "malformed avro: cannot be read as declared"
    is_dead = f"`{_VALUE}` IS NOT NULL AND `{_PARSED}`.`{_READ}` IS NULL"
    return sql, f"IF({is_dead}, concat('{why}', chr(10), hex(`{_VALUE}`)), NULL)"


def _given_schema(text: str) -> dict[str, Any]:
    try:
        schema = json.loads(text)
        if isinstance(schema, dict) and isinstance(schema["fields"], list):
            return schema
    except (ValueError, KeyError):
        pass
    raise ConfigError('avroSchema is no record of Avro: write {"type": "record", "name": …, "fields": […]}')


def avro_schema(declared: Sequence[Column]) -> dict[str, Any]:
    """A record of the declared columns, each of which may be NULL.

    >>> avro_schema([Column("id", "bigint")])["fields"]
    [{'name': 'id', 'type': ['null', 'long'], 'default': None}]
    """
    fields = [{"name": c.name, "type": ["null", _avro_type(c.type)], "default": None} for c in declared]
    return {"type": "record", "name": "row", "fields": fields}


def _avro_type(kind: str) -> object:
    digits = decimal_digits(kind)
    if digits is not None:
        return {"type": "bytes", "logicalType": "decimal", "precision": digits[0], "scale": digits[1]}
    return _AVRO[kind]


def _constant(text: str) -> str:
    return spark_constant(text, "string")


def _quote(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"
