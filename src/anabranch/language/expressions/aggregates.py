"""Aggregate functions: what they take and what they give."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from decimal import Decimal

from sqlglot import exp

from anabranch.language.expressions.expression import AggregateValue, Call, Constant, Expression
from anabranch.language.expressions.operators import NULL, choose, coerce
from anabranch.language.expressions.types import (
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
    node: exp.Expr,
    clause: str | None,
    *,
    resolve_argument: Callable[[exp.Expr], Expression],
    times: Sequence[Expression],
) -> AggregateValue:
    """Give a call of an aggregate its meaning.

    Parameters
    ----------
    clause
        The part of the query in which it stands, if aggregates cannot stand there.
    resolve_argument
        Gives an argument its meaning.
    times
        Event times of the streams; the largest is that of a row.
    """
    name = node.name
    if clause is not None:
        raise Refusal(f"{name} is an aggregate, which cannot stand in {clause}", _advice(clause))
    arguments: Sequence[exp.Expr] = node.expressions
    if name.lower() == "count" and len(arguments) == 1 and isinstance(arguments[0], exp.Star):
        return AggregateValue("count", None, "bigint")
    if any(isinstance(argument, exp.Distinct) for argument in arguments):
        return _distinct(name, arguments[0].expressions, resolve_argument)
    count, wanted = (2, "column, …") if name.lower() in _PAIRS else (1, "column")
    if len(arguments) != count:
        takes = f"{name} takes {count} argument{'s' * (count > 1)}"
        raise Refusal(f"{takes}, not {len(arguments)}", f"write {name}({wanted})")
    values = [resolve_argument(argument) for argument in arguments]
    if name.lower() in _BY_TIME:
        values.append(times[0] if len(times) == 1 else Call("greatest", tuple(times), times[0].type))
    return AGGREGATES[name.lower()](*values)


def filtered(value: AggregateValue, condition: Expression) -> AggregateValue:
    """The aggregate over the rows that a condition holds for: the others count as NULL does."""
    if value.function.startswith("window_"):
        raise Refusal("FILTER belongs behind an aggregate", "write SUM(x) FILTER (WHERE x > 0)")
    if value.by is not None:
        return replace(value, by=choose([condition], [value.by, NULL]))
    argument = Constant(1, "int") if value.argument is None else value.argument
    return replace(value, argument=choose([condition], [argument, NULL]))


def _distinct(
    name: str, arguments: Sequence[exp.Expr], resolve_argument: Callable[[exp.Expr], Expression]
) -> AggregateValue:
    if len(arguments) != 1:
        found = f"{name}(DISTINCT …) takes 1 argument, not {len(arguments)}"
        raise Refusal(found, f"write {name}(DISTINCT x)")
    value = resolve_argument(arguments[0])
    if name.lower() in ("min", "max"):  # the same without DISTINCT
        return AGGREGATES[name.lower()](value)
    if name.lower() != "count":
        raise Refusal(f"{name}(DISTINCT …) is not supported", "of distinct values there is COUNT only")
    if value.type in (VOID, INTERVAL):
        raise Refusal(f"distinct values of {value.type} cannot be counted", "CAST it, or count a column")
    return AggregateValue("count_distinct", value, "bigint")


def _advice(clause: str) -> str:
    if clause == "WHERE":
        return "put the condition into HAVING"
    if clause == "FILTER":
        return "filter by columns"
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


def _best(function: str) -> Callable[[Expression, Expression], AggregateValue]:
    def resolve(value: Expression, by: Expression) -> AggregateValue:
        for part in (value, by):
            if part.type in (VOID, INTERVAL):
                raise Refusal(f"{function} of {part.type} is not supported", "CAST it, or name a column")
        return AggregateValue(function, value, value.type, by=by)

    return resolve


def _percentile(value: Expression, which: Expression) -> AggregateValue:
    part = which.value if isinstance(which, Constant) else None
    if not isinstance(part, int | float | Decimal) or not 0 <= part <= 1:
        raise Refusal("percentile takes a constant from 0 to 1", "write percentile(x, 0.95)")
    number = coerce(_number(value, "percentile"), "double")
    return AggregateValue("percentile", number, "double", parameter=float(part))


def _median(value: Expression) -> AggregateValue:
    return _percentile(value, Constant(0.5, "double"))


def _number(value: Expression, function: str) -> Expression:
    if not is_numeric(value.type):
        raise Refusal(f"{function} needs numbers, found {value.type}", "CAST it to a number")
    return coerce(value, "double") if value.type in FLOATING else value


_PAIRS = ("max_by", "min_by", "percentile")
_BY_TIME = ("first", "first_value", "last", "last_value")

AGGREGATES: dict[str, Callable[..., AggregateValue]] = {
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
    "max_by": _best("max_by"),
    "min_by": _best("min_by"),
    "first": _best("min_by"),
    "first_value": _best("min_by"),
    "last": _best("max_by"),
    "last_value": _best("max_by"),
    "median": _median,
    "percentile": _percentile,
}
"""What users may call, by lower-case name."""
