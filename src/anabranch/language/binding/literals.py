"""Constants as they are written in a query."""

from __future__ import annotations

import math
from decimal import Decimal

from sqlglot import exp

from anabranch.language.expressions.expression import Constant, Expression
from anabranch.language.expressions.types import INTEGRAL, Refusal
from anabranch.language.syntax.whole_number import whole_number


def literal(node: exp.Expr) -> Expression:
    """Text in quotes, or a number."""
    text = node.name
    if node.is_string:
        if "\0" in text:
            raise Refusal("text with a NUL character is not supported", "leave the character out")
        return Constant(text, "string")
    return number(text)


def number(text: str) -> Expression:
    """A number as Spark types it."""
    if not text.isascii() or "_" in text:
        raise Refusal(f"{text} is not a number", "use the digits 0 to 9")
    if "e" in text.lower():
        return Constant(double(text), "double")
    if "." in text:
        digits = Decimal(text)
        scale = -int(digits.as_tuple().exponent)
        precision = max(len(digits.as_tuple().digits), scale, 1)
        if precision > 38:
            raise Refusal(f"{text} has more than 38 digits", "write it as 1.5e0, a double")
        return Constant(digits, f"decimal({precision},{scale})")
    whole = whole_number(text)
    if whole is None or whole >= 2**63:
        raise Refusal(f"{text} is larger than a BIGINT", "write it as a double: 1e20")
    return Constant(whole, "int" if whole < 2**31 else "bigint")


def double(text: str) -> float:
    """Digits as a double."""
    value = float(text)
    if math.isinf(value):
        raise Refusal(f"{text} is larger than a DOUBLE", "write a smaller number")
    return value


def hexadecimal(node: exp.Expr) -> Expression:
    """`X'00ff'`."""
    try:
        return Constant(bytes.fromhex(node.name), "binary")
    except ValueError:
        raise Refusal(f"X'{node.name}' is not a row of bytes", "use pairs of hexadecimal digits") from None


def is_whole(node: exp.Expr) -> bool:
    """Whether a node is a number of digits alone."""
    return (
        isinstance(node, exp.Literal) and not node.is_string and node.name.isdigit() and node.name.isascii()
    )


def integer(digits: str, kind: str, *, sign: int = 1) -> Expression:
    """Digits as an integer of a type."""
    bits = 8 << INTEGRAL.index(kind)
    number = whole_number(digits)
    if number is None or not -(1 << bits - 1) <= sign * number < 1 << bits - 1:
        raise Refusal(f"{'-' * (sign < 0)}{digits} does not fit {kind.upper()}", "use a larger type")
    return Constant(sign * number, kind)
