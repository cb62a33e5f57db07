"""Predicates that bound a difference or a distance: `a.x <= b.y`, `abs(a.x - b.x) <= w`, `a.x - b.x > w`.

What is found here, a kernel decides by itself, without the text of the predicate. So a form is taken only
where integers in the order of the values, or the floating-point difference itself, say the same as the
predicate for every value: NULL never holds, NaN is larger than all others and equal to itself, -0.0 is 0.0,
and a difference that does not fit its type is NULL.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from typing import Literal

from anabranch.language.expressions.expression import Call, Cast, Constant, Expression, aliases_in
from anabranch.language.expressions.types import (
    FLOATING,
    INTEGRAL,
    INTERVAL,
    as_decimal,
    decimal_digits,
    is_widening,
)
from anabranch.plan.logical import Band, Distance

Column = Callable[[Expression], str]
"""Names the column of an expression that reads one reference."""

MOST_DIGITS = 18
"""Of decimals that 64 bits hold."""
_TURNED = {
    "less": "greater",
    "less_equal": "greater_equal",
    "greater": "less",
    "greater_equal": "less_equal",
}
_OPPOSITE = {
    "less": "greater_equal",
    "less_equal": "greater",
    "greater": "less_equal",
    "greater_equal": "less",
}
_EXACT_DOUBLES = 2**53
"""Integers below it are doubles."""


def band_of(conjunct: Expression, column: Column) -> Band | None:
    """The bounds that a predicate sets, or None if it is of another form."""
    if not isinstance(conjunct, Call):
        return None
    name, args = conjunct.name, conjunct.args
    if name == "not" and isinstance(args[0], Call) and args[0].name in _OPPOSITE:
        name, args = _OPPOSITE[args[0].name], args[0].args
    if name not in _TURNED:
        return None
    left, right = args
    if len(aliases_in(left)) == len(aliases_in(right)) == 1:
        return _comparison(name, left, right, column) if _is_ordered(left.type) else None
    if isinstance(left, Constant):
        name, left, right = _TURNED[name], right, left
    return _bounded(name, left, right, column) if isinstance(right, Constant) else None


def distance_of(conjunct: Expression, column: Column) -> Distance | None:
    """The largest distance of two vectors, each of one reference, that a predicate allows."""
    if not (isinstance(conjunct, Call) and conjunct.name in _TURNED):
        return None
    name, (value, bound) = conjunct.name, conjunct.args
    if isinstance(value, Constant):
        name, value, bound = _TURNED[name], bound, value
    is_distance = isinstance(value, Call) and value.name == "l2_distance" and name in ("less", "less_equal")
    if not is_distance or not isinstance(bound, Constant) or not isinstance(bound.value, float):
        return None
    assert isinstance(value, Call)
    half = len(value.args) // 2
    vectors = value.args[:half], value.args[half:]
    owners = [{aliases_in(x) for x in vector} for vector in vectors]
    if any(len(owner) != 1 or len(next(iter(owner))) != 1 for owner in owners) or owners[0] == owners[1]:
        return None
    most = math.nextafter(bound.value, -math.inf) if name == "less" else bound.value
    left, right = (tuple(column(x) for x in vector) for vector in vectors)
    return Distance(left, right, most)


def _is_ordered(kind: str) -> bool:
    """Whether values of a type have 64-bit integers of the same order."""
    digits = decimal_digits(kind)
    if digits is not None:
        return digits[0] <= MOST_DIGITS
    return kind in (*INTEGRAL, *FLOATING, "date", "timestamp", "timestamp_ntz", INTERVAL)


def _comparison(name: str, left: Expression, right: Expression, column: Column) -> Band:
    low, high = {
        "less": (None, -1),
        "less_equal": (None, 0),
        "greater": (1, None),
        "greater_equal": (0, None),
    }[name]
    return Band(column(left), column(right), low, high)


def _bounded(name: str, value: Expression, bound: Constant, column: Column) -> Band | None:
    """A comparison of a difference, or its absolute value, with a constant."""
    if isinstance(bound.value, bool | str | bytes | None):
        return None
    value = _without_widening(value, bound)
    absolute = isinstance(value, Call) and value.name in ("absolute", "absolute_integer")
    if absolute and name not in ("less", "less_equal"):
        return None
    difference = value.args[0] if absolute and isinstance(value, Call) else value
    if not (isinstance(difference, Call) and difference.name in ("subtract", "subtract_decimal")):
        return None
    left, right = difference.args
    if not len(aliases_in(left)) == len(aliases_in(right)) == 1 or aliases_in(left) == aliases_in(right):
        return None
    columns = column(left), column(right)
    if difference.type == "float":
        return _rounded_band(name, bound, *columns, absolute=absolute, rounding="float")
    if difference.type == "double":
        return _rounded_band(name, bound, *columns, absolute=absolute, rounding="double")
    if difference.name == "subtract_decimal" and not _are_of_one_scale(left.type, right.type):
        return None
    return _exact_band(name, Fraction(bound.value), *columns, absolute=absolute, kind=difference.type)


def _without_widening(value: Expression, bound: Constant) -> Expression:
    """The value before casts that keep it, or keep at least the side of the bound on which it is."""
    while isinstance(value, Cast) and _keeps(value.value.type, value.type, bound):
        value = value.value
    return value


def _keeps(source: str, target: str, bound: Constant) -> bool:
    if is_widening(source, target):
        return True
    if target == "double":
        assert isinstance(bound.value, int | float | Decimal)
        return source in INTEGRAL and abs(Fraction(bound.value)) < _EXACT_DOUBLES
    digits = decimal_digits(target)
    if digits is None or not (source in INTEGRAL or decimal_digits(source)):
        return False
    precision, scale = as_decimal(source)
    return digits[1] >= scale and digits[0] - digits[1] >= precision - scale


def _are_of_one_scale(left: str, right: str) -> bool:
    (p1, s1), (p2, s2) = as_decimal(left), as_decimal(right)
    return s1 == s2 and max(p1, p2) <= MOST_DIGITS


def _exact_band(name: str, bound: Fraction, left: str, right: str, *, absolute: bool, kind: str) -> Band:
    digits = decimal_digits(kind)
    if digits is None:
        bits = 8 << INTEGRAL.index("bigint" if kind == INTERVAL else kind)
        # Beyond its type a difference is NULL; so is the absolute value of the smallest integer.
        most = (1 << bits - 1) - 1
        least = -most if absolute else -most - 1
    else:
        bound *= 10 ** digits[1]
        least, most = -(10 ** digits[0]), 10 ** digits[0]
    if name in ("less", "less_equal"):
        most = min(most, math.floor(bound) if name == "less_equal" else math.ceil(bound) - 1)
        least = max(least, -most) if absolute else least
    else:
        least = max(least, math.ceil(bound) if name == "greater_equal" else math.floor(bound) + 1)
    return Band(left, right, least, most)


def _rounded_band(
    name: str,
    bound: Constant,
    left: str,
    right: str,
    *,
    absolute: bool,
    rounding: Literal["float", "double"],
) -> Band | None:
    assert isinstance(bound.value, int | float | Decimal)
    limit = float(bound.value)
    if not math.isfinite(limit) or bound.type not in FLOATING:
        return None
    if bound.type == "float":
        limit = struct.unpack("f", struct.pack("f", limit))[0]
    if name in ("less", "less_equal"):
        high = math.nextafter(limit, -math.inf) if name == "less" else limit
        # Every number is at least -inf, as NaN is not at most anything: both stay so when the band is turned.
        return Band(left, right, -high if absolute else -math.inf, high, rounding)
    return Band(left, right, math.nextafter(limit, math.inf) if name == "greater" else limit, None, rounding)
