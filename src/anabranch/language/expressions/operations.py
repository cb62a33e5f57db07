"""How each operation is written in Spark SQL and in DuckDB SQL so that both compute the same value.

One rule holds everywhere: a row on which an operation has no result (overflow, division by zero) gets
NULL. One bad row must never stop a stream. Arguments already have the types the operation wants.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from anabranch.language.expressions.spark_functions import SIGNATURES
from anabranch.language.expressions.types import decimal_digits, duckdb_type, spark_type

Renderer = Callable[[Sequence[str], Sequence[str]], str]
"""From the SQL of the arguments and the types of arguments and result to the SQL of the call."""

_DAY_US = 86_400_000_000
_YEARS_1_TO_9999_US = (-62_135_596_800_000_000, 253_402_300_799_999_999)


@dataclass(frozen=True, slots=True)
class Operation:
    """One operation in both engines, or in Spark alone."""

    spark: Renderer
    duckdb: Renderer | None


def _template(text: str) -> Renderer:
    return lambda args, types: text.format(*args)


def _both(text: str) -> Operation:
    return Operation(_template(text), _template(text))


def _pair(spark: str, duckdb: str) -> Operation:
    return Operation(_template(spark), _template(duckdb))


def _spark(text: str) -> Operation:
    """An operation that only Spark computes."""
    return Operation(_template(text), None)


def _function(name: str) -> Operation:
    def render(args: Sequence[str], types: Sequence[str]) -> str:
        return f"{name}({', '.join(args)})"

    return Operation(render, None)


def _typed(text: str) -> Operation:
    """An operation of decimals, whose result type depends on a setting unless it is written down."""
    return Operation(lambda args, types: f"CAST({text.format(*args)} AS {spark_type(types[-1])})", None)


def _rounded(args: Sequence[str], types: Sequence[str]) -> str:
    """Half away from zero in the number's shortest text, as Spark has it; large numbers have no fraction."""
    x, digits = args[0], re.sub(r"\D", "", args[1])
    text = f"CAST(CAST(CAST({x} AS VARCHAR) AS DECIMAL(38,{digits})) AS VARCHAR)"
    exact = f"isnan({x}) OR abs({x}) >= 9007199254740992"
    return f"CASE WHEN {exact} THEN {x} ELSE CAST({text} AS {duckdb_type(types[0])}) + 0 END"


def _rounded_decimal(args: Sequence[str], types: Sequence[str]) -> str:
    return f"CAST({args[0]} AS {duckdb_type(types[-1])})"


def _list(name: str) -> Operation:
    def render(args: Sequence[str], types: Sequence[str]) -> str:
        return f"{name}({', '.join(args)})"

    return Operation(render, render)


def _chain(word: str) -> Operation:
    def render(args: Sequence[str], types: Sequence[str]) -> str:
        return f"({f' {word} '.join(args)})"

    return Operation(render, render)


def _in(args: Sequence[str], types: Sequence[str]) -> str:
    return f"({args[0]} IN ({', '.join(args[1:])}))"


def _case(args: Sequence[str], types: Sequence[str]) -> str:
    arms = "".join(f" WHEN {args[i]} THEN {args[i + 1]}" for i in range(0, len(args) - 1, 2))
    return f"CASE{arms} ELSE {args[-1]} END"


def _concat(args: Sequence[str], types: Sequence[str]) -> str:
    return f"({' || '.join(args)})"


def _trimmed(*, left: bool = False, right: bool = False) -> Renderer:
    """Blanks removed byte by byte, as Spark does, whether the bytes are UTF-8 or not.

    DuckDB's own trim raises an internal error over bytes that are not, after which the connection is of no
    more use, and a regular expression refuses to give them back; `replace` takes them as they are. A mark
    longer than the text occurs nowhere in it, so the blanks beside the mark are those at the text's end.
    """
    mark = "repeat(chr(1), strlen(s) + 1)"
    forms = [f"replace({mark} || s, {mark} || regexp_extract(s, '^ *'), '')"] if left else []
    forms += [f"replace(s || {mark}, regexp_extract(s, ' *$') || {mark}, '')"] if right else []

    def render(args: Sequence[str], types: Sequence[str]) -> str:
        text = args[0]
        for form in forms:
            # A lambda, so that the argument is written once, however many trims stand in each other.
            text = f"list_transform([{text}], lambda s: {form})[1]"
        return text

    return render


def _wide_decimals(sign: str) -> Renderer:
    """DuckDB keeps 18 digits as long as both sides have no more; at 38 the exact result always fits."""

    def render(args: Sequence[str], types: Sequence[str]) -> str:
        sides = [f"CAST({arg} AS DECIMAL(38,{_scale(kind)}))" for arg, kind in zip(args, types, strict=False)]
        return f"TRY_CAST({sides[0]} {sign} {sides[1]} AS {duckdb_type(types[-1])})"

    return render


def _scale(kind: str) -> int:
    digits = decimal_digits(kind)
    assert digits is not None
    return digits[1]


def _clipped(micros: str) -> str:
    low, high = _YEARS_1_TO_9999_US
    return f"CASE WHEN {micros} BETWEEN {low} AND {high} THEN {micros} END"


def _distance(args: Sequence[str], types: Sequence[str]) -> str:
    """Squares of differences, added from left to right, and the root of that: the definition."""
    half = len(args) // 2
    differences = (f"({x} - {y})" for x, y in zip(args[:half], args[half:], strict=True))
    return f"sqrt({' + '.join(f'{d} * {d}' for d in differences)})"


def _absolute_integer(args: Sequence[str], types: Sequence[str]) -> str:
    # Spark has no try_abs and no try_negative, and the smallest integer has no counterpart.
    return f"(CASE WHEN {args[0]} < 0 THEN try_subtract(CAST(0 AS {types[0]}), {args[0]}) ELSE {args[0]} END)"


def _negative_integer(args: Sequence[str], types: Sequence[str]) -> str:
    return f"try_subtract(CAST(0 AS {types[0]}), {args[0]})"


def spark_floor_division(value: str, unit: str | int) -> str:
    """Exact floor(value / unit) of a BIGINT; `/` would go through a double and lose microseconds."""
    return f"(try_subtract({value}, pmod({value}, {unit})) div {unit})"


def _utc_date(value: str) -> str:
    # Spark's own date of a timestamp follows the session's time zone.
    return f"date_from_unix_date(CAST({spark_floor_division(f'unix_micros({value})', _DAY_US)} AS INT))"


def _clock(unit_us: int, modulus: int) -> Operation:
    return _pair(
        f"CAST(pmod(unix_micros({{0}}), {unit_us * modulus}L) div {unit_us} AS INT)",
        # DuckDB's // truncates, so times before 1970 are moved to the same time of a later day first.
        f"CAST(((epoch_us({{0}}) % {_DAY_US} + {_DAY_US}) // {unit_us}) % {modulus} AS INTEGER)",
    )


_BOTH = {
    "equal": "({0} = {1})",
    "not_equal": "({0} <> {1})",
    "less": "({0} < {1})",
    "less_equal": "({0} <= {1})",
    "greater": "({0} > {1})",
    "greater_equal": "({0} >= {1})",
    "not": "(NOT {0})",
    "is_null": "({0} IS NULL)",
    "negative": "(- {0})",
    "absolute": "abs({0})",
}

OPERATIONS: dict[str, Operation] = {
    **{name: _function(name) for name in SIGNATURES},
    **{name: _both(text) for name, text in _BOTH.items()},
    "and": _chain("AND"),
    "or": _chain("OR"),
    "null_safe_equal": _pair("({0} <=> {1})", "({0} IS NOT DISTINCT FROM {1})"),
    "in": Operation(_in, _in),
    "case": Operation(_case, _case),
    "coalesce": _list("coalesce"),
    "least": _list("least"),
    "greatest": _list("greatest"),
    "is_nan": _pair("coalesce(isnan({0}), FALSE)", "coalesce(isnan({0}), FALSE)"),
    # arithmetic
    "add": _pair("try_add({0}, {1})", "TRY({0} + {1})"),
    "subtract": _pair("try_subtract({0}, {1})", "TRY({0} - {1})"),
    "multiply": _pair("try_multiply({0}, {1})", "TRY({0} * {1})"),
    "add_decimal": Operation(_template("try_add({0}, {1})"), _wide_decimals("+")),
    "subtract_decimal": Operation(_template("try_subtract({0}, {1})"), _wide_decimals("-")),
    "multiply_decimal": Operation(_template("try_multiply({0}, {1})"), _wide_decimals("*")),
    "divide": _pair("try_divide({0}, {1})", "({0} / NULLIF({1}, 0))"),
    "modulo_integer": _pair("try_mod({0}, {1})", "CASE WHEN {1} = -1 THEN {0} * 0 ELSE TRY({0} % {1}) END"),
    "modulo": _pair("try_mod({0}, {1})", "TRY({0} % NULLIF({1}, 0))"),
    "negative_integer": Operation(_negative_integer, _template("TRY(- {0})")),
    "absolute_integer": Operation(_absolute_integer, _template("TRY(abs({0}))")),
    "floor": _pair(
        "IF({0} >= -9.223372036854775808E18D AND {0} < 9.223372036854775807E18D, floor({0}), NULL)",
        "TRY_CAST(floor({0}) AS BIGINT)",
    ),
    "ceil": _pair(
        "IF({0} >= -9.223372036854775808E18D AND {0} < 9.223372036854775807E18D, ceil({0}), NULL)",
        "TRY_CAST(ceil({0}) AS BIGINT)",
    ),
    # Spark rounds -0.3 to 0.0, DuckDB to -0.0.
    "round": _pair("round({0})", "(round({0}) + 0)"),
    "round_to": Operation(_template("round({0}, {1})"), _rounded),
    "round_decimal": Operation(
        lambda args, types: f"CAST(round({args[0]}, {args[1]}) AS {spark_type(types[-1])})", _rounded_decimal
    ),
    "divide_decimal": _typed("try_divide({0}, {1})"),
    "modulo_decimal": _typed("try_mod({0}, {1})"),
    "divide_whole": _spark("({0} DIV {1})"),
    "bit_and": _both("({0} & {1})"),
    "bit_or": _both("({0} | {1})"),
    "bit_xor": _pair("({0} ^ {1})", "xor({0}, {1})"),
    "bit_not": _both("(~ {0})"),
    "square_root": _pair("sqrt({0})", "CASE WHEN {0} < 0 THEN 'NaN'::DOUBLE ELSE sqrt({0}) END"),
    "l2_distance": Operation(_distance, _distance),
    # text
    "concat": Operation(_concat, _concat),
    "length": _pair("length({0})", "CAST(length({0}) AS INTEGER)"),
    "substring": _both("substring({0}, {1}, {2})"),
    "trim": Operation(_template("trim({0})"), _trimmed(left=True, right=True)),
    "left_trim": Operation(_template("ltrim({0})"), _trimmed(left=True)),
    "right_trim": Operation(_template("rtrim({0})"), _trimmed(right=True)),
    "starts_with": _pair("startswith({0}, {1})", "starts_with({0}, {1})"),
    "ends_with": _pair("endswith({0}, {1})", "ends_with({0}, {1})"),
    "contains": _both("contains({0}, {1})"),
    "ilike": _spark("({0} ILIKE {1})"),
    "any_substring": _spark("substring({0}, {1}, {2})"),
    "element_of_split": _spark("get(split({0}, {1}), {2})"),
    "concat_ws": _function("concat_ws"),
    "like": _pair("({0} LIKE {1})", "({0} LIKE {1} ESCAPE '\\')"),
    # time
    "unix_micros": _pair("unix_micros({0})", "epoch_us({0})"),
    "timestamp_micros": Operation(
        lambda args, types: f"timestamp_micros({_clipped(args[0])})",
        lambda args, types: f"make_timestamp({_clipped(args[0])})",
    ),
    "divide_floor": Operation(
        lambda args, types: spark_floor_division(args[0], args[1]),
        _template("CASE WHEN {0} % {1} < 0 THEN {0} // {1} - 1 ELSE {0} // {1} END"),
    ),
    "year": Operation(lambda a, t: f"year({_utc_date(a[0])})", _template("CAST(year({0}) AS INTEGER)")),
    "month": Operation(lambda a, t: f"month({_utc_date(a[0])})", _template("CAST(month({0}) AS INTEGER)")),
    "day": Operation(lambda a, t: f"day({_utc_date(a[0])})", _template("CAST(day({0}) AS INTEGER)")),
    "hour": _clock(3_600_000_000, 24),
    "minute": _clock(60_000_000, 60),
    "second": _clock(1_000_000, 60),
}
"""Every operation there is. A name missing here cannot be rendered, whatever the parser accepted."""
