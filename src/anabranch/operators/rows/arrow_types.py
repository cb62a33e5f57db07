"""Arrow types of Spark's SQL types, as tasks and blocks hold them."""

from __future__ import annotations

import re

import pyarrow as pa

_SIMPLE = {
    "boolean": pa.bool_(),
    "tinyint": pa.int8(),
    "smallint": pa.int16(),
    "int": pa.int32(),
    "bigint": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    # 64-bit offsets: a batch may bring more than 2 GiB of keys of a mebibyte each.
    "string": pa.large_string(),
    "binary": pa.large_binary(),
    "date": pa.date32(),
    # Event time is UTC; without a zone DuckDB needs no time zone data to compute on it.
    "timestamp": pa.timestamp("us"),
    "timestamp_ntz": pa.timestamp("us"),
}
_DECIMAL = re.compile(r"decimal\((\d+),\s*(\d+)\)")


def arrow_type(spark_type: str) -> pa.DataType | None:
    """The Arrow type of a Spark type; None where values are passed through untouched.

    >>> arrow_type("decimal(10,2)")
    Decimal128Type(decimal128(10, 2))
    >>> arrow_type("array<int>") is None
    True
    """
    if decimal := _DECIMAL.fullmatch(spark_type):
        return pa.decimal128(int(decimal[1]), int(decimal[2]))
    return _SIMPLE.get(spark_type)
