"""Spark's types as simple strings, and the type two values meet in."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from sqlglot import exp

from anabranch.language.syntax.whole_number import whole_number

VOID: Final = "void"
"""The type of a bare NULL: it fits everywhere."""
UNKNOWN: Final = "unknown"
"""The type of a column of a SELECT at ingest that only Spark can tell."""
INTERVAL: Final = "interval day to second"
"""A length of time. Both engines compute it as a BIGINT of microseconds: see `physical_type`."""

INTEGRAL: Final = ("tinyint", "smallint", "int", "bigint")
FLOATING: Final = ("float", "double")
SIMPLE: Final = (
    "boolean", *INTEGRAL, *FLOATING, "string", "binary", "date", "timestamp", "timestamp_ntz",
)  # fmt: skip
MAX_DIGITS: Final = 38

_DIGITS = {"tinyint": 3, "smallint": 5, "int": 10, "bigint": 20}
_SQL_NAMES = {
    exp.DType.BOOLEAN: "boolean",
    exp.DType.TINYINT: "tinyint",
    exp.DType.SMALLINT: "smallint",
    exp.DType.INT: "int",
    exp.DType.BIGINT: "bigint",
    exp.DType.FLOAT: "float",
    exp.DType.DOUBLE: "double",
    exp.DType.TEXT: "string",
    exp.DType.BINARY: "binary",
    exp.DType.DATE: "date",
    exp.DType.TIMESTAMPTZ: "timestamp",
    exp.DType.TIMESTAMPLTZ: "timestamp",
    exp.DType.TIMESTAMPNTZ: "timestamp_ntz",
}
_DUCKDB_NAMES = {
    "int": "INTEGER",
    "string": "VARCHAR",
    "binary": "BLOB",
    "timestamp_ntz": "TIMESTAMP",
}


class Refusal(Exception):
    """A construct the language does not take; whoever knows the place turns it into a QueryError."""

    def __init__(self, message: str, suggestion: str) -> None:
        super().__init__(message)
        self.message = message
        self.suggestion = suggestion


def type_name(node: exp.DataType) -> str:
    """Spark's simple string of a type the user wrote; raises `Refusal` when queries cannot use it.

    >>> type_name(exp.DataType.build("NUMERIC(10)", dialect="spark"))
    'decimal(10,0)'
    """
    if node.args.get("collate"):
        raise Refusal("collated strings are not supported", "write STRING without COLLATE")
    if node.this == exp.DType.DECIMAL:
        return _decimal_name([param.name for param in node.expressions] or ["10"])
    name = _SQL_NAMES.get(node.this)
    if name is None or node.expressions:
        raise Refusal(
            f"type {node.sql('spark')} is not supported", f"use one of {', '.join(SIMPLE)}, decimal(p,s)"
        )
    return name


def _decimal_name(params: Sequence[str]) -> str:
    precision, scale = [*map(whole_number, params), 0][:2]
    whole = precision is not None and scale is not None and len(params) <= 2
    if not whole or not max(1, scale or 0) <= (precision or 0) <= MAX_DIGITS:
        raise Refusal(
            f"DECIMAL({','.join(params)}) is not a type",
            f"write DECIMAL(10,2), with at most {MAX_DIGITS} digits",
        )
    return f"decimal({precision},{scale})"


def is_supported(name: str) -> bool:
    """Whether queries can compute with values of this type."""
    return name in SIMPLE or decimal_digits(name) is not None


def is_numeric(name: str) -> bool:
    """Whether `name` is an integer, floating or decimal type."""
    return name in INTEGRAL or name in FLOATING or decimal_digits(name) is not None


def decimal_digits(name: str) -> tuple[int, int] | None:
    """Precision and scale of a decimal type, None for any other.

    >>> decimal_digits("decimal(10,2)")
    (10, 2)
    """
    match = re.fullmatch(r"decimal\((\d+),\s*(\d+)\)", name)
    return (int(match[1]), int(match[2])) if match else None


def as_decimal(name: str) -> tuple[int, int]:
    """Precision and scale that hold every value of an integer or decimal type."""
    return decimal_digits(name) or (_DIGITS[name], 0)


def decimal_type(precision: int, scale: int) -> str:
    """Name of a decimal type; raises `Refusal` when it would need more than 38 digits."""
    if precision > MAX_DIGITS:
        raise Refusal(
            f"this needs a decimal of {precision} digits; Spark has {MAX_DIGITS}",
            "CAST one side to DOUBLE or to a decimal with fewer digits",
        )
    return f"decimal({precision},{scale})"


def common_type(left: str, right: str) -> str | None:
    """The type in which Spark (ANSI rules) compares or mixes two values; None when they clash.

    >>> common_type("int", "bigint"), common_type("decimal(10,2)", "int"), common_type("bigint", "float")
    ('bigint', 'decimal(12,2)', 'double')
    >>> common_type("string", "int")
    """
    if left == right or right == VOID:
        return left
    if left == VOID:
        return right
    if not (is_numeric(left) and is_numeric(right)):
        return None
    if left in INTEGRAL and right in INTEGRAL:
        return max(left, right, key=INTEGRAL.index)
    if left in FLOATING or right in FLOATING:
        # Not float: it could not hold the digits of the other side.
        return "double"
    (p1, s1), (p2, s2) = as_decimal(left), as_decimal(right)
    return decimal_type(max(p1 - s1, p2 - s2) + max(s1, s2), max(s1, s2))


def key_type(name: str) -> str:
    """The type in which values of type `name` become a join key: one per family.

    >>> key_type("smallint"), key_type("float"), key_type("string")
    ('bigint', 'double', 'string')
    """
    if name in INTEGRAL:
        return "bigint"
    return "double" if name in FLOATING else physical_type(name)


def is_widening(source: str, target: str) -> bool:
    """Whether `target` is of the family of `source` and holds all its values.

    >>> is_widening("int", "bigint"), is_widening("bigint", "int"), is_widening("float", "double")
    (True, False, True)
    """
    return any(
        source in family and target in family and family.index(source) <= family.index(target)
        for family in (INTEGRAL, FLOATING)
    )


def physical_type(name: str) -> str:
    """The type of the column that carries a value of type `name`."""
    return "bigint" if name == INTERVAL else name


def spark_type(name: str) -> str:
    """`name` in Spark SQL."""
    return physical_type(name).upper()


def duckdb_type(name: str) -> str:
    """`name` in DuckDB SQL. TIMESTAMP is naive and means UTC."""
    return _DUCKDB_NAMES.get(name) or physical_type(name).upper()
