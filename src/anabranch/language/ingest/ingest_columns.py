"""Columns of a SELECT at ingest as far as they can be told without Spark, for `anabranch explain`.

Spark tells the types when a session loads a flow. Before, those of declared columns, casts and fields of a
schema written as text are known; the others are UNKNOWN, and a query that uses one is not bound until then.
"""

from __future__ import annotations

from collections.abc import Sequence

import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError

from anabranch.language.expressions.types import UNKNOWN, Refusal, type_name
from anabranch.language.ingest.vector_column import selected_vector
from anabranch.plan.logical import Column

_OWN_COLUMNS = {
    "kafka": "key binary, value binary, topic string, partition int, offset bigint, timestamp timestamp",
    "rate": "timestamp timestamp, value bigint",
    "rate-micro-batch": "timestamp timestamp, value bigint",
    "socket": "value string",
    "text": "value string",
}


def source_columns(format_name: str, declared: Sequence[Column]) -> tuple[Column, ...] | None:
    """Columns of a source: those declared, or its own; None where only Spark knows them."""
    if declared:
        return tuple(declared)
    own = _OWN_COLUMNS.get(format_name.lower())
    return None if own is None else tuple(Column(*part.strip().split(" ")) for part in own.split(","))


def known_columns(select: exp.Expr, source: Sequence[Column] | None) -> tuple[Column, ...] | None:
    """Columns of a SELECT, UNKNOWN where Spark must tell the type; None where it must tell the names too."""
    found: list[Column] = []
    for node in select.expressions:
        columns = _columns_of(node, source)
        if columns is None:
            return None
        found += columns
    return tuple(found)


def _columns_of(node: exp.Expr, source: Sequence[Column] | None) -> list[Column] | None:
    if isinstance(node, exp.Star):
        return None if source is None else list(source)
    if isinstance(node, exp.Dot) and isinstance(node.expression, exp.Star):
        return _fields(node.this)
    if isinstance(node, exp.Column) and isinstance(node.this, exp.Star):
        return None
    if isinstance(node, exp.Aliases):
        return [Column(alias.name, UNKNOWN) for alias in node.args["expressions"]]
    if (vector := selected_vector(node)) is not None:
        return list(vector.elements)
    inner = node.this if isinstance(node, exp.Alias) else node
    return [Column(node.alias_or_name, _type_of(inner, source or ()))]


def _type_of(node: exp.Expr, source: Sequence[Column]) -> str:
    if isinstance(node, exp.Cast):
        try:
            return type_name(node.args["to"])
        except Refusal:
            return UNKNOWN
    if isinstance(node, exp.Column) and len(node.parts) == 1:
        return next((c.type for c in source if c.name.lower() == node.name.lower()), UNKNOWN)
    return UNKNOWN


def _fields(node: exp.Expr) -> list[Column] | None:
    """Fields of `from_json(text, 'a INT, b STRING')`."""
    schema = node.expressions[1] if isinstance(node, exp.Anonymous) and len(node.expressions) > 1 else None
    if not isinstance(schema, exp.Literal) or not schema.is_string:
        return None
    try:
        table = sqlglot.parse_one(f"CREATE TABLE t ({schema.name})", dialect="spark")
    except SqlglotError:
        return None
    columns = []
    for field in table.find_all(exp.ColumnDef):
        if field.parent is not table.this:
            continue
        try:
            columns.append(Column(field.name, type_name(field.args["kind"])))
        except Refusal:
            columns.append(Column(field.name, UNKNOWN))
    return columns
