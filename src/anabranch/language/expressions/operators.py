"""Operators and conversions: what they take, what they give, and what they refuse."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal

from anabranch.language.expressions.casts import cast_sql
from anabranch.language.expressions.constants import (
    EXACT,
    date_constant,
    decimal_constant,
    timestamp_constant,
)
from anabranch.language.expressions.expression import Call, Cast, Constant, Expression
from anabranch.language.expressions.like_pattern import like_pattern
from anabranch.language.expressions.types import (
    FLOATING,
    INTEGRAL,
    INTERVAL,
    MAX_DIGITS,
    VOID,
    Refusal,
    as_decimal,
    common_type,
    decimal_digits,
    decimal_type,
    is_numeric,
)

Arguments = Sequence[Expression]
NULL = Constant(None, VOID)


def coerce(value: Expression, target: str) -> Expression:
    """Convert without loss, as Spark does by itself where types differ."""
    if value.type == target:
        return value
    if isinstance(value, Constant) and value.value is None:
        return Constant(None, target)
    if isinstance(value, Constant) and isinstance(value.value, int | Decimal) and is_numeric(target):
        number = float(value.value) if target in FLOATING else value.value
        return Constant(Decimal(number) if decimal_digits(target) else number, target)
    return Cast(value, target)


def cast(value: Expression, target: str) -> Expression:
    """What CAST and TRY_CAST do: the value in another type, or NULL."""
    if isinstance(value, Constant) and isinstance(value.value, str):
        if target == "timestamp":
            return Constant(timestamp_constant(value.value), target)
        if target == "date":
            return Constant(date_constant(value.value), target)
        if decimal_digits(target):
            return Constant(decimal_constant(value.value, target), target)
    if value.type == VOID:
        return Constant(None, target)
    cast_sql("", value.type, target)
    return Cast(value, target) if value.type != target else value


def unify(values: Arguments, what: str) -> tuple[list[Expression], str]:
    """Bring values to the one type they have in common."""
    kind = values[0].type
    for value in values[1:]:
        kind = _common(kind, value.type, what)
    return [coerce(value, kind) for value in values], kind


def compare(name: str, left: Expression, right: Expression) -> Expression:
    """A comparison of two values in the type Spark compares them in."""
    sides, _ = unify([left, right], "be compared")
    return Call(name, tuple(sides), "boolean")


def logical(name: str, *values: Expression) -> Expression:
    """AND, OR or NOT."""
    return Call(name, tuple(map(condition, values)), "boolean")


def choose(conditions: Arguments, results: Arguments) -> Expression:
    """CASE: the result of the first condition that holds, else the last result."""
    values, kind = unify(results, "be results of one CASE")
    tests = map(condition, conditions)
    pairs = [part for pair in zip(tests, values, strict=False) for part in pair]
    return Call("case", (*pairs, values[-1]), kind)


def condition(value: Expression) -> Expression:
    """Check that `value` is a condition."""
    if value.type not in ("boolean", VOID):
        raise Refusal(f"expected a condition, found {value.type}", "compare it with something")
    return coerce(value, "boolean")


def arithmetic(name: str, left: Expression, right: Expression) -> Expression:
    """`+ - * / %` with Spark's result types."""
    moved = _time_arithmetic(name, left, right)
    if moved is not None:
        return moved
    for side in (left, right):
        if not is_numeric(side.type) and side.type != VOID:
            raise Refusal(f"{name} needs numbers, found {side.type}", "CAST it to a number")
    left, right = _typed(left, right.type), _typed(right, left.type)
    if name == "divide":
        return _divide(left, right)
    kind = _common(left.type, right.type, f"be operands of {name}", decimals=False)
    if decimal_digits(kind):
        return _decimal_arithmetic(name, left, right)
    if kind == VOID:
        kind = "int"
    operation = "modulo_integer" if name == "modulo" and kind in INTEGRAL else name
    return Call(operation, (coerce(left, kind), coerce(right, kind)), kind)


def negative(value: Expression) -> Expression:
    """Unary minus."""
    constant = value.value if isinstance(value, Constant) and value.type != "boolean" else None
    # Only from above zero: the smallest integer has no counterpart.
    if isinstance(constant, Decimal) and constant >= 0:
        return Constant(EXACT.minus(constant), value.type)
    if isinstance(constant, int | float) and constant >= 0 and not isinstance(constant, bool):
        return Constant(-constant, value.type)
    if value.type in INTEGRAL:
        return Call("negative_integer", (value,), value.type)
    if value.type in FLOATING or decimal_digits(value.type):
        return Call("negative", (value,), value.type)
    raise Refusal(f"- needs a number, found {value.type}", "CAST it to a number")


def whole_division(left: Expression, right: Expression) -> Expression:
    """`DIV` of integers."""
    for side in (left, right):
        if side.type not in INTEGRAL:
            raise Refusal(f"DIV needs integers, found {side.type}", "write floor(a / b)")
    return Call("divide_whole", (coerce(left, "bigint"), coerce(right, "bigint")), "bigint")


def like(value: Expression, pattern: Expression, escape: str = "\\") -> Expression:
    """LIKE with a constant pattern: only there can the escapes be checked before a row arrives."""
    if value.type not in ("string", VOID):
        raise Refusal(f"LIKE needs a string, found {value.type}", "CAST it to STRING")
    if not isinstance(pattern, Constant) or not isinstance(pattern.value, str):
        raise Refusal("the pattern of LIKE must be a constant", "write it in quotes, or use contains")
    text = Constant(like_pattern(pattern.value, escape), "string")
    return Call("like", (coerce(value, "string"), text), "boolean")


def _typed(value: Expression, other: str) -> Expression:
    """A bare NULL has the type of the other side."""
    return coerce(value, other) if value.type == VOID else value


def _common(left: str, right: str, what: str, *, decimals: bool = True) -> str:
    if not decimals and decimal_digits(left) and (decimal_digits(right) or right in INTEGRAL):
        return left
    if not decimals and decimal_digits(right) and left in INTEGRAL:
        return right
    kind = common_type(left, right)
    if kind is None:
        raise Refusal(f"{left} and {right} cannot {what}", _cast_hint(left, right))
    return kind


def _cast_hint(left: str, right: str) -> str:
    pair = {left, right}
    if "string" in pair and pair & {"date", "timestamp"}:
        other = (pair - {"string"}).pop().upper()
        return f"write the constant as {other} '…'"
    if pair == {"date", "timestamp"}:
        return "CAST the date to TIMESTAMP, or the timestamp to DATE"
    if "string" in pair and any(is_numeric(kind) for kind in pair):
        number = next(kind for kind in pair if is_numeric(kind))
        target = "DOUBLE" if number in FLOATING or decimal_digits(number) else number.upper()
        return f"CAST the string to {target}"
    return "CAST one side to the other's type"


def _divide(left: Expression, right: Expression) -> Expression:
    kinds = (left.type, right.type)
    if any(map(decimal_digits, kinds)) and not set(kinds) & set(FLOATING):
        return _decimal_division(left, right)
    return Call("divide", (coerce(left, "double"), coerce(right, "double")), "double")


def _decimal_division(left: Expression, right: Expression) -> Expression:
    """Spark's type for a quotient: 6 digits behind the point at least, 38 in all."""
    sides = [_exact_decimal(side) for side in (left, right)]
    (p1, s1), (p2, s2) = as_decimal(sides[0].type), as_decimal(sides[1].type)
    whole, scale = p1 - s1 + s2, max(6, s1 + p2 + 1)
    if whole + scale > MAX_DIGITS:
        scale = max(MAX_DIGITS - whole, min(scale, 6))
    return Call("divide_decimal", tuple(sides), decimal_type(min(whole + scale, MAX_DIGITS), scale))


def _decimal_arithmetic(name: str, left: Expression, right: Expression) -> Expression:
    sides = [_exact_decimal(side) for side in (left, right)]
    (p1, s1), (p2, s2) = as_decimal(sides[0].type), as_decimal(sides[1].type)
    if name == "modulo":
        scale = max(s1, s2)
        kind = decimal_type(min(p1 - s1, p2 - s2) + scale, scale)
        return Call("modulo_decimal", tuple(sides), kind)
    if name == "multiply":
        kind = decimal_type(p1 + p2 + 1, s1 + s2)
    else:
        kind = decimal_type(max(p1 - s1, p2 - s2) + max(s1, s2) + 1, max(s1, s2))
    return Call(f"{name}_decimal", tuple(sides), kind)


def _exact_decimal(value: Expression) -> Expression:
    if decimal_digits(value.type):
        return value
    if isinstance(value, Constant) and isinstance(value.value, int):
        # Spark gives an integer literal just the digits it has, a column the digits of its type.
        return Constant(Decimal(value.value), decimal_type(len(str(abs(value.value))), 0))
    return coerce(value, decimal_type(*as_decimal(value.type)))


def _time_arithmetic(name: str, left: Expression, right: Expression) -> Expression | None:
    kinds = (left.type, right.type)
    if INTERVAL not in kinds and "timestamp" not in kinds:
        return None
    if kinds == ("timestamp", "timestamp") and name == "subtract":
        return Call(name, (unix_micros(left), unix_micros(right)), INTERVAL)
    if kinds == (INTERVAL, INTERVAL) and name in ("add", "subtract"):
        return Call(name, (left, right), INTERVAL)
    if kinds == (INTERVAL, "timestamp") and name == "add":
        left, right = right, left
    if (left.type, right.type) == ("timestamp", INTERVAL) and name in ("add", "subtract"):
        return Call("timestamp_micros", (Call(name, (unix_micros(left), right), "bigint"),), "timestamp")
    raise Refusal(
        f"{name} of {left.type} and {right.type} is not supported",
        "write timestamp + INTERVAL n unit, or timestamp - timestamp",
    )


def unix_micros(value: Expression) -> Expression:
    """A timestamp as microseconds since 1970."""
    if isinstance(value, Constant):
        return Constant(value.value, "bigint")
    return Call("unix_micros", (value,), "bigint")
