"""Which casts exist, and how to make both engines agree on them.

A cast never fails: a value that has no counterpart becomes NULL. Casts that the two engines round, read or
print differently are computed by Spark alone, where the rows of a stream arrive.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from anabranch.language.expressions.operations import spark_floor_division
from anabranch.language.expressions.types import (
    FLOATING,
    INTEGRAL,
    INTERVAL,
    VOID,
    Refusal,
    decimal_digits,
    duckdb_type,
    is_supported,
    spark_type,
)

_DAY_US = 86_400_000_000
_TOP = {"tinyint": 2**7, "smallint": 2**15, "int": 2**31, "bigint": 2**63}
# What Spark trims before it reads a number: white space and control characters.
_INTEGER_TEXT = r"^[\x00-\x20\x7f]*([+-]?[0-9]+)[\x00-\x20\x7f]*$"
_NUMBER_TEXT = "^ *[+-]?([0-9]+[.]?[0-9]*|[.][0-9]+)([eE][+-]?[0-9]{1,9})? *$"


@dataclass(frozen=True, slots=True)
class CastSql:
    """One cast in both engines, or in Spark alone."""

    spark: str
    duckdb: str | None


def cast_sql(value: str, source: str, target: str) -> CastSql:
    """Render the cast of `value`; raises `Refusal` for a pair that is not on the list.

    >>> cast_sql("x", "int", "bigint").spark
    'CAST(x AS BIGINT)'
    """
    if source == target:
        return CastSql(value, value)
    pair = (_family(source), _family(target))
    render = _PAIRS.get(pair)
    if source == VOID:
        render = _plain
    if (render is None or (target == "float" and source not in INTEGRAL)) and pair in _SPARK_PAIRS:
        render = _in_spark
    if render is None:
        raise Refusal(f"{source} cannot be cast to {target}", _suggestion(source, target))
    return render(value, source, target)


def _family(kind: str) -> str:
    if kind in INTEGRAL:
        return "integral"
    if kind in FLOATING:
        return "floating"
    if decimal_digits(kind):
        return "decimal"
    return "other" if kind == INTERVAL or not (is_supported(kind) or kind == VOID) else kind


def _plain(value: str, source: str, target: str) -> CastSql:
    return CastSql(f"CAST({value} AS {spark_type(target)})", f"CAST({value} AS {duckdb_type(target)})")


def _checked(value: str, source: str, target: str) -> CastSql:
    return CastSql(
        f"TRY_CAST({value} AS {spark_type(target)})", f"TRY_CAST({value} AS {duckdb_type(target)})"
    )


def _in_spark(value: str, source: str, target: str) -> CastSql:
    return CastSql(f"TRY_CAST({value} AS {spark_type(target)})", None)


def _between_integers(value: str, source: str, target: str) -> CastSql:
    wider = INTEGRAL.index(source) < INTEGRAL.index(target)
    return _plain(value, source, target) if wider else _checked(value, source, target)


def _truncated(value: str, source: str, target: str) -> CastSql:
    # DuckDB rounds where Spark truncates, and Spark maps 2^63 to the largest BIGINT instead of refusing it.
    top = repr(float(_TOP[target])).upper() + "D"
    return CastSql(
        f"IF({value} < {top}, TRY_CAST({value} AS {spark_type(target)}), NULL)",
        f"TRY_CAST(trunc({value}) AS {duckdb_type(target)})",
    )


def _decimal_to_integral(value: str, source: str, target: str) -> CastSql:
    return CastSql(
        f"TRY_CAST({value} AS {spark_type(target)})", f"TRY_CAST(trunc({value}) AS {duckdb_type(target)})"
    )


def _decimal_to_double(value: str, source: str, target: str) -> CastSql:
    # DuckDB divides two doubles, which rounds twice once the digits exceed a double's.
    digits = decimal_digits(source)
    exact = digits is not None and digits[0] <= 15
    text = value if exact else f"CAST({value} AS VARCHAR)"
    return CastSql(f"CAST({value} AS DOUBLE)", f"CAST({text} AS DOUBLE)")


def _string_to_integral(value: str, source: str, target: str) -> CastSql:
    digits = f"regexp_extract({value}, '{_INTEGER_TEXT}', 1)"
    return CastSql(
        f"TRY_CAST({value} AS {spark_type(target)})",
        f"TRY_CAST(NULLIF({digits}, '') AS {duckdb_type(target)})",
    )


def _string_to_double(value: str, source: str, target: str) -> CastSql:
    # Java also reads '1d', '0x1p3' and 'NaN', DuckDB '1_000': only plain numbers are common ground.
    number = f"TRY_CAST(trim({value}, ' ') AS DOUBLE)"
    return CastSql(
        f"IF({value} RLIKE '{_NUMBER_TEXT}', TRY_CAST({value} AS DOUBLE), NULL)",
        f"CASE WHEN regexp_matches({value}, '{_NUMBER_TEXT}') THEN {number} END",
    )


def _midnight(value: str, source: str, target: str) -> CastSql:
    return CastSql(
        f"timestamp_micros(try_multiply(CAST(unix_date({value}) AS BIGINT), {_DAY_US}L))",
        f"TRY_CAST({value} AS TIMESTAMP)",
    )


def _utc_date(value: str, source: str, target: str) -> CastSql:
    return CastSql(
        f"date_from_unix_date(CAST({spark_floor_division(f'unix_micros({value})', _DAY_US)} AS INT))",
        f"CAST({value} AS DATE)",
    )


def _suggestion(source: str, target: str) -> str:
    if source in ("timestamp", "date") and target in INTEGRAL:
        return "use unix_micros, unix_millis or unix_seconds"
    if target in ("timestamp", "date"):
        return "let the source read it as that type, or use timestamp_micros on a BIGINT"
    if source in FLOATING or target in FLOATING:
        return "CAST to DOUBLE or BIGINT instead"
    return "see the table of casts: `anabranch docs language`"


_PAIRS: dict[tuple[str, str], Callable[[str, str, str], CastSql]] = {
    ("integral", "integral"): _between_integers,
    ("integral", "floating"): _plain,
    ("integral", "decimal"): _checked,
    ("integral", "string"): _plain,
    ("integral", "boolean"): _plain,
    ("floating", "integral"): _truncated,
    ("floating", "floating"): _plain,
    ("decimal", "integral"): _decimal_to_integral,
    ("decimal", "floating"): _decimal_to_double,
    ("decimal", "decimal"): _checked,
    ("boolean", "integral"): _plain,
    ("boolean", "string"): _plain,
    ("string", "integral"): _string_to_integral,
    ("string", "floating"): _string_to_double,
    ("date", "timestamp"): _midnight,
    ("timestamp", "date"): _utc_date,
}
"""The casts there are in both engines, by family of types."""
_SPARK_PAIRS = {
    ("floating", "floating"),
    ("floating", "decimal"),
    ("floating", "string"),
    ("decimal", "floating"),
    ("decimal", "string"),
    ("string", "decimal"),
    ("string", "boolean"),
    ("string", "binary"),
    ("string", "date"),
    ("string", "timestamp"),
    ("binary", "string"),
    ("date", "string"),
    ("timestamp", "string"),
}
"""Casts that only Spark computes: what text says and how a number is written differs between engines."""
