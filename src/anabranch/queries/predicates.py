"""Filters of queries, read as predicates: constraints that can be compared and indexed, and a rest.

What the binder wrote is canonical Spark SQL over the columns of one stream. A constraint is about a column,
or a column in another type. Whatever has another form is the rest, kept as it is written.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from decimal import Decimal

import pyarrow as pa
import sqlglot
from sqlglot import exp

from anabranch.language.syntax.patterns import Patterns
from anabranch.operators.rows.arrow_types import arrow_type
from anabranch.plan.logical import Field, Stream
from anabranch.plan.predicate import (
    TRUE,
    Between,
    Conjunction,
    Constant,
    Constraint,
    IsNull,
    NoneOf,
    OneOf,
    Predicate,
    conjoined,
    disjoined,
    starts_with,
)

MOST_CONJUNCTIONS = 16
"""Conjunctions that a filter may be multiplied out to; one that has more stays a rest."""
_EPOCH = datetime(1970, 1, 1)
_MIRRORED: dict[type[exp.Expr], type[exp.Expr]] = {
    exp.LT: exp.GT,
    exp.LTE: exp.GTE,
    exp.GT: exp.LT,
    exp.GTE: exp.LTE,
    exp.EQ: exp.EQ,
    exp.NEQ: exp.NEQ,
}
_NEGATED: dict[type[exp.Expr], type[exp.Expr]] = {
    exp.LT: exp.GTE,
    exp.LTE: exp.GT,
    exp.GT: exp.LTE,
    exp.GTE: exp.LT,
    exp.EQ: exp.NEQ,
    exp.NEQ: exp.EQ,
}


@dataclass(frozen=True, slots=True)
class FilterPredicate:
    """A filter as a predicate, and the values that its constraints are about, by attribute."""

    predicate: Predicate
    fields: Mapping[str, Field]


def predicate_of(filter_sql: str | None, stream: Stream) -> FilterPredicate:
    """Read the filter of a reference to a stream.

    >>> from anabranch.plan.logical import Column
    >>> orders = Stream("orders", (Column("id", "bigint"), Column("ts", "timestamp")), "ts")
    >>> predicate_of("(`id` > 5L)", orders).predicate.any_of[0].constraints
    (Between(attribute='`id`::bigint', low=5, high=None, low_open=True, high_open=False),)
    """
    if filter_sql is None:
        return FilterPredicate(TRUE, {})
    reader = _Reader({column.name: column.type for column in stream.columns})
    read = _FILTERS.read(filter_sql, lambda node: reader.read(node, negated=False))
    return FilterPredicate(read, reader.fields)


_FILTERS = Patterns(lambda sql: sqlglot.parse_one(sql, dialect="spark"))


class _Reader:
    def __init__(self, types: Mapping[str, str]) -> None:
        self._types = types
        self.fields: dict[str, Field] = {}

    def read(self, node: exp.Expr, *, negated: bool) -> Predicate:
        """What a condition says, or its negation: both are only asked for being true."""
        match node:
            case exp.Paren():
                return self.read(node.this, negated=negated)
            case exp.Not():
                return self.read(node.this, negated=not negated)
            case exp.And() | exp.Or():
                left, right = (self.read(side, negated=negated) for side in (node.left, node.right))
                if isinstance(node, exp.Or) != negated:
                    return disjoined(left, right)
                return conjoined(left, right, most=MOST_CONJUNCTIONS) or _rest(node, negated=negated)
        constraint = self._constraint(node, negated=negated)
        return (
            _rest(node, negated=negated) if constraint is None else Predicate((Conjunction((constraint,)),))
        )

    def _constraint(self, node: exp.Expr, *, negated: bool) -> Constraint | None:
        match node:
            case exp.Column():
                attribute = self._attribute(node)
                return None if attribute is None else OneOf(attribute, (not negated,))
            case exp.Is() if isinstance(node.expression, exp.Null):
                attribute = self._attribute(node.this)
                if attribute is None:
                    return None
                return Between(attribute) if negated else IsNull(attribute)
            case exp.In():
                return self._in(node, negated=negated)
            case exp.Like():
                return self._like(node, negated=negated)
            case exp.LT() | exp.LTE() | exp.GT() | exp.GTE() | exp.EQ() | exp.NEQ():
                return self._comparison(node, negated=negated)
        return None

    def _comparison(self, node: exp.Expr, *, negated: bool) -> Constraint | None:
        kind, left, right = type(node), node.this, node.expression
        if _constant(right) is None:
            kind, left, right = _MIRRORED[kind], right, left
        attribute, found = self._attribute(left), _constant(right)
        if attribute is None or found is None:
            return None
        kind, (value,) = _NEGATED[kind] if negated else kind, found
        if kind is exp.EQ:
            return OneOf(attribute, (value,))
        if kind is exp.NEQ:
            return NoneOf(attribute, (value,))
        if kind in (exp.LT, exp.LTE):
            return Between(attribute, high=value, high_open=kind is exp.LT)
        return Between(attribute, low=value, low_open=kind is exp.GT)

    def _in(self, node: exp.In, *, negated: bool) -> Constraint | None:
        attribute, found = self._attribute(node.this), [_constant(value) for value in node.expressions]
        if attribute is None or not found or None in found:
            return None
        values = tuple(dict.fromkeys(value[0] for value in found if value is not None))
        return NoneOf(attribute, values) if negated else OneOf(attribute, values)

    def _like(self, node: exp.Like, *, negated: bool) -> Constraint | None:
        pattern = node.expression
        text = pattern.this if isinstance(pattern, exp.Literal) and pattern.is_string else None
        is_prefix = text is not None and text.endswith("%") and not set(text[:-1]) & set("%_\\")
        attribute = self._attribute(node.this)
        if negated or not is_prefix or attribute is None:
            return None
        assert text is not None
        return starts_with(attribute, text[:-1])

    def _attribute(self, node: exp.Expr) -> str | None:
        """Name of a column, or of a column in another type; None for anything else."""
        inner = node.this if isinstance(node, exp.Cast | exp.TryCast) else node
        if not isinstance(inner, exp.Column) or inner.name not in self._types:
            return None
        kind = self._types[inner.name]
        sql = "`" + inner.name.replace("`", "``") + "`"
        if inner is not node:
            to = node.args["to"].sql(dialect="spark").lower().replace(" ", "")
            # A cast that fails is NULL; which of both words was written does not matter to what is true.
            sql, kind = f"TRY_CAST({sql} AS {to.upper()})", to
        if arrow_type(kind) is None:
            return None
        field = Field(sql, kind)
        name = f"{sql}::{kind}"
        self.fields[name] = field
        return name


def _rest(node: exp.Expr, *, negated: bool) -> Predicate:
    text = node.sql(dialect="spark")
    return Predicate((Conjunction((), (f"NOT ({text})" if negated else text,)),))


def _constant(node: exp.Expr) -> tuple[Constant] | None:
    """The value of a constant as the binder writes it, in a tuple; None for anything else, and for NULL."""
    match node:
        case exp.Literal():
            return (node.this if node.is_string else int(node.this),)
        case exp.Boolean():
            return (bool(node.this),)
        case exp.Neg():
            inner = _constant(node.this)
            return None if inner is None or isinstance(inner[0], str) else (-inner[0],)
        case exp.DateFromUnixDate():
            days = _constant(node.this)
            return None if days is None else (date(1970, 1, 1) + timedelta(days=days[0]),)
        case exp.Anonymous() if node.name.lower() == "timestamp_micros":
            micros = _constant(node.expressions[0])
            return None if micros is None else (_EPOCH + timedelta(microseconds=micros[0]),)
        case exp.Cast() | exp.TryCast() if isinstance(node.this, exp.HexString):
            return (bytes.fromhex(node.this.name),)
        case exp.Cast() | exp.TryCast() if isinstance(node.this, exp.Literal):
            make = _MADE.get(node.args["to"].this)
            return None if make is None else (make(str(node.this.this)),)
    return None


_MADE: Mapping[object, Callable[[str], Constant]] = {
    exp.DataType.Type.BIGINT: int,
    exp.DataType.Type.INT: int,
    exp.DataType.Type.SMALLINT: int,
    exp.DataType.Type.TINYINT: int,
    exp.DataType.Type.DOUBLE: float,
    exp.DataType.Type.FLOAT: float,
    exp.DataType.Type.DECIMAL: Decimal,
}


def attribute_types(fields: Mapping[str, Field]) -> dict[str, pa.DataType]:
    """Arrow types of attributes."""
    return {name: arrow_type(field.type) for name, field in fields.items()}
