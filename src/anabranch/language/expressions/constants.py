"""Constants, written so that no setting of an engine can change what they mean."""

from __future__ import annotations

import re
from datetime import UTC, date, datetime, timedelta
from decimal import Context, Decimal

from anabranch.language.expressions.types import Refusal, decimal_digits, duckdb_type, spark_type

Value = None | bool | int | float | Decimal | str | bytes

EXACT = Context(prec=60)
"""For decimals, of which Python would keep 28 digits in abs, round and unary minus; types have up to 38."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_TIMESTAMP = re.compile(r"\d{4}-\d\d-\d\d([ T]\d\d:\d\d(:\d\d(\.\d{1,6})?)?(Z|[+-]\d\d:\d\d)?)?")
_SUFFIX = {"tinyint": "Y", "smallint": "S", "int": "", "bigint": "L"}


def spark_constant(value: Value, kind: str) -> str:
    """A constant in Spark SQL.

    >>> spark_constant(5, "bigint"), spark_constant("it's", "string")
    ('5L', "CAST(X'69742773' AS STRING)")
    """
    if value is None:
        return f"CAST(NULL AS {spark_type(kind)})"
    if isinstance(value, bool):
        return "TRUE" if value else "FALSE"
    if isinstance(value, bytes):
        return f"X'{value.hex().upper()}'"
    if isinstance(value, str):
        # How Spark reads a backslash or a quote inside '…' depends on its settings, and ${…} it replaces
        # by a setting or a variable of the environment before it reads at all; bytes it leaves alone.
        plain = value.isprintable() and not any(sign in value for sign in "\\'$")
        return f"'{value}'" if plain else f"CAST(X'{value.encode().hex().upper()}' AS STRING)"
    if kind in _SUFFIX:
        return f"{value}{_SUFFIX[kind]}"
    if kind == "timestamp":
        return f"timestamp_micros({value}L)"
    if kind == "date":
        return f"date_from_unix_date({value})"
    if decimal_digits(kind):
        return f"CAST('{value:f}' AS {spark_type(kind)})"
    if kind in ("double", "float"):
        double = f"{float(value)!r}".upper() + "D"
        return double if kind == "double" else f"CAST({double} AS FLOAT)"
    return f"{value}L"


def duckdb_constant(value: Value, kind: str) -> str:
    """A constant in DuckDB SQL.

    >>> duckdb_constant(5, "bigint"), duckdb_constant("it's", "string")
    ('CAST(5 AS BIGINT)', "'it''s'")
    """
    if value is None:
        return f"CAST(NULL AS {duckdb_type(kind)})"
    if isinstance(value, bool):
        return "TRUE" if value else "FALSE"
    if isinstance(value, bytes):
        return "'" + "".join(f"\\x{byte:02X}" for byte in value) + "'::BLOB"
    if isinstance(value, str):
        return "'" + value.replace("'", "''") + "'"
    if kind == "timestamp":
        return f"make_timestamp({value})"
    if kind == "date":
        return f"(DATE '1970-01-01' + CAST({value} AS INTEGER))"
    if kind == "float":
        return f"CAST(CAST('{value!r}' AS DOUBLE) AS FLOAT)"
    text = f"{value:f}" if isinstance(value, Decimal) else repr(value)
    # A bare 1.5 is a decimal to DuckDB, and a bare -2147483648 a BIGINT: the text decides nothing here.
    return f"CAST('{text}' AS {duckdb_type(kind)})" if not isinstance(value, int) else _integer(value, kind)


def timestamp_constant(text: str) -> int:
    """Microseconds since 1970 of an ISO timestamp. Without a zone it is UTC, whatever Spark's zone is.

    >>> timestamp_constant("1970-01-01 00:00:01"), timestamp_constant("1970-01-01T01:00:00+01:00")
    (1000000, 0)
    """
    try:
        if not _TIMESTAMP.fullmatch(text):
            raise ValueError(text)
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise Refusal(f"{text!r} is no timestamp", "write TIMESTAMP '2024-12-31 23:59:59.123456'") from None
    return ((moment if moment.tzinfo else moment.replace(tzinfo=UTC)) - _EPOCH) // timedelta(microseconds=1)


def date_constant(text: str) -> int:
    """Days since 1970 of an ISO date.

    >>> date_constant("1970-01-02")
    1
    """
    try:
        if not re.fullmatch(r"\d{4}-\d\d-\d\d", text):
            raise ValueError(text)
        return (date.fromisoformat(text) - _EPOCH.date()).days
    except ValueError:
        raise Refusal(f"{text!r} is no date", "write DATE '2024-12-31'") from None


def decimal_constant(text: str, kind: str) -> Decimal:
    """A decimal written as text, exactly; refused when `kind` cannot hold it.

    >>> decimal_constant("1.5", "decimal(3,2)")
    Decimal('1.50')
    """
    precision, scale = decimal_digits(kind) or (0, 0)
    if not re.fullmatch(r"[+-]?(\d+\.?\d*|\.\d+)", text, re.ASCII):
        raise Refusal(f"{text!r} is no decimal", "write it with digits and a point")
    value = Decimal(text)
    fits = value.copy_abs() < Decimal(10) ** (precision - scale)
    fitted = value.quantize(Decimal(1).scaleb(-scale), context=EXACT) if fits else None
    if fitted is None or fitted != value:
        raise Refusal(f"{text} does not fit {kind}", "use a decimal with more digits")
    return fitted


def _integer(value: int, kind: str) -> str:
    return f"CAST({value} AS {duckdb_type(kind)})"
