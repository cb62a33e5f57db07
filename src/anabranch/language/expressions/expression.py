"""Typed expressions: the only form in which user SQL goes on to an engine.

There is no node for SQL text. What is not a column, a constant or a call of an operation that
`operations.py` can render cannot be written down here, and so cannot reach Spark or DuckDB.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from decimal import Decimal

from anabranch.language.expressions.casts import cast_sql
from anabranch.language.expressions.constants import duckdb_constant, spark_constant
from anabranch.language.expressions.operations import OPERATIONS

ConstantValue = None | bool | int | float | Decimal | str | bytes


@dataclass(frozen=True, slots=True)
class ColumnValue:
    """A column of a stream reference; `name` as the stream declares it."""

    alias: str
    name: str
    type: str


@dataclass(frozen=True, slots=True)
class Constant:
    """A value known when the query is bound. Dates are days and times are microseconds since 1970."""

    value: ConstantValue
    type: str


@dataclass(frozen=True, slots=True)
class Cast:
    """A value of another type; NULL where the value has none."""

    value: Expression
    type: str


@dataclass(frozen=True, slots=True)
class Call:
    """An operation of `OPERATIONS` on values that already have the types it wants."""

    name: str
    args: tuple[Expression, ...]
    type: str


@dataclass(frozen=True, slots=True)
class AggregateValue:
    """An aggregate over the rows of a group inside a window; without an argument, their number.

    The bounds of a window of GROUP BY are such values too: `window_start` and `window_end`.
    """

    function: str
    argument: Expression | None
    type: str
    by: Expression | None = None
    """What max_by and min_by choose by."""
    parameter: float | None = None
    """Which percentile."""

    @property
    def inputs(self) -> tuple[Expression, ...]:
        """What is computed of every row."""
        return tuple(value for value in (self.argument, self.by) if value is not None)


Expression = ColumnValue | Constant | Cast | Call | AggregateValue


def aliases_in(expression: Expression) -> frozenset[str]:
    """The stream references an expression reads."""
    if isinstance(expression, ColumnValue):
        return frozenset((expression.alias,))
    if isinstance(expression, Cast):
        return aliases_in(expression.value)
    if isinstance(expression, Call):
        return frozenset().union(*map(aliases_in, expression.args))
    if isinstance(expression, AggregateValue):
        return frozenset().union(*map(aliases_in, expression.inputs))
    return frozenset()


def aggregates_in(value: Expression) -> Iterator[AggregateValue]:
    """The aggregates that an expression is computed from."""
    if isinstance(value, AggregateValue):
        yield value
    elif isinstance(value, Cast):
        yield from aggregates_in(value.value)
    elif isinstance(value, Call):
        for argument in value.args:
            yield from aggregates_in(argument)


def is_spark_only(expression: Expression) -> bool:
    """Whether the outermost step of an expression has no twin in DuckDB."""
    if isinstance(expression, Cast):
        return cast_sql("", expression.value.type, expression.type).duckdb is None
    return isinstance(expression, Call) and OPERATIONS[expression.name].duckdb is None


def spark_sql(expression: Expression) -> str:
    """Spark SQL over the columns of one stream: unqualified, back-quoted, canonical.

    >>> spark_sql(Cast(ColumnValue("o", "id", "int"), "bigint"))
    'CAST(`id` AS BIGINT)'
    """
    if isinstance(expression, AggregateValue):
        raise LookupError(f"{expression.function} is not computed row by row")
    if isinstance(expression, ColumnValue):
        return "`" + expression.name.replace("`", "``") + "`"
    if isinstance(expression, Constant):
        return spark_constant(expression.value, expression.type)
    if isinstance(expression, Cast):
        inner = spark_sql(expression.value)
        return cast_sql(inner, expression.value.type, expression.type).spark
    args = [spark_sql(arg) for arg in expression.args]
    return OPERATIONS[expression.name].spark(args, _types(expression))


def duckdb_sql(expression: Expression, place: Callable[[Expression], str | None]) -> str:
    """DuckDB SQL, where `place` names the column that holds an expression, or None to compute it.

    >>> column = ColumnValue("o", "id", "int")
    >>> duckdb_sql(Cast(column, "bigint"), lambda e: '"o.0"' if aliases_in(e) else None)
    '"o.0"'
    """
    column = place(expression)
    if column is not None:
        # TIMESTAMP arrives with or without a zone, depending on who made the Arrow data; both mean UTC.
        return f"make_timestamp(epoch_us({column}))" if expression.type == "timestamp" else column
    if isinstance(expression, ColumnValue):
        raise LookupError(f"no place for column {expression.alias}.{expression.name}")
    if isinstance(expression, AggregateValue):
        raise LookupError(f"no place for aggregate {expression.function}")
    if isinstance(expression, Constant):
        return duckdb_constant(expression.value, expression.type)
    if isinstance(expression, Cast):
        inner = duckdb_sql(expression.value, place)
        found = cast_sql(inner, expression.value.type, expression.type).duckdb
        if found is None:
            raise LookupError(f"only Spark casts {expression.value.type} to {expression.type}")
        return found
    render = OPERATIONS[expression.name].duckdb
    if render is None:
        raise LookupError(f"only Spark computes {expression.name}")
    return render([duckdb_sql(arg, place) for arg in expression.args], _types(expression))


def _types(call: Call) -> tuple[str, ...]:
    return (*(arg.type for arg in call.args), call.type)
