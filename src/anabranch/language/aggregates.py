"""Aggregate functions: what they take and what they give."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from sqlglot import exp

from anabranch.language.expression import AggregateValue, Expression
from anabranch.language.operators import coerce
from anabranch.language.types import (
    FLOATING,
    INTEGRAL,
    INTERVAL,
    MAX_DIGITS,
    VOID,
    Refusal,
    decimal_digits,
    is_numeric,
)


def resolve_aggregate(
    node: exp.Expr, clause: str | None, resolve_argument: Callable[[exp.Expr], Expression]
) -> AggregateValue:
    """Give a call of an aggregate its meaning.

    Parameters
    ----------
    clause
        The part of the query in which it stands, if aggregates cannot stand there.
    resolve_argument
        Gives an argument its meaning.
    """
    name = node.name
    if clause is not None:
        raise Refusal(f"{name} is an aggregate, which cannot stand in {clause}", _advice(clause))
    arguments: Sequence[exp.Expr] = node.expressions
    if any(isinstance(argument, exp.Distinct) for argument in arguments):
        hint = "aggregate all rows, or write a query SELECT DISTINCT … and count its results downstream"
        raise Refusal(f"{name}(DISTINCT …) is not supported", hint)
    if name.lower() == "count" and len(arguments) == 1 and isinstance(arguments[0], exp.Star):
        return AggregateValue("count", None, "bigint")
    if len(arguments) != 1:
        raise Refusal(f"{name} takes 1 argument, not {len(arguments)}", f"write {name}(column)")
    return AGGREGATES[name.lower()](resolve_argument(arguments[0]))


def _advice(clause: str) -> str:
    if clause == "WHERE":
        return "put the condition into HAVING"
    return "aggregate a plain expression" if clause == "another aggregate" else "group by plain expressions"


def _count(value: Expression) -> AggregateValue:
    return AggregateValue("count", value, "bigint")


def _sum(value: Expression) -> AggregateValue:
    digits = decimal_digits(value.type)
    if digits:
        return AggregateValue("sum", value, f"decimal({min(digits[0] + 10, MAX_DIGITS)},{digits[1]})")
    number = _number(value, "sum")
    return AggregateValue("sum", number, "bigint" if number.type in INTEGRAL else "double")


def _average(value: Expression) -> AggregateValue:
    return AggregateValue("avg", _number(value, "avg"), "double")


def _variance(function: str) -> Callable[[Expression], AggregateValue]:
    def resolve(value: Expression) -> AggregateValue:
        return AggregateValue(function, coerce(_number(value, function), "double"), "double")

    return resolve


def _extreme(function: str) -> Callable[[Expression], AggregateValue]:
    def resolve(value: Expression) -> AggregateValue:
        if value.type in (VOID, INTERVAL):
            raise Refusal(f"{function} of {value.type} is not supported", "CAST it, or aggregate a column")
        return AggregateValue(function, value, value.type)

    return resolve


def _number(value: Expression, function: str) -> Expression:
    if not is_numeric(value.type):
        raise Refusal(f"{function} needs numbers, found {value.type}", "CAST it to a number")
    return coerce(value, "double") if value.type in FLOATING else value


AGGREGATES: dict[str, Callable[[Expression], AggregateValue]] = {
    "count": _count,
    "sum": _sum,
    "avg": _average,
    "mean": _average,
    "min": _extreme("min"),
    "max": _extreme("max"),
    "stddev": _variance("stddev_samp"),
    "stddev_samp": _variance("stddev_samp"),
    "std": _variance("stddev_samp"),
    "stddev_pop": _variance("stddev_pop"),
    "variance": _variance("var_samp"),
    "var_samp": _variance("var_samp"),
    "var_pop": _variance("var_pop"),
}
"""What users may call, by lower-case name."""
