"""Streams that the tests of the language talk about."""

from __future__ import annotations

from anabranch.language.flow import bind_query
from anabranch.plan.logical import Column, Query, Stream

ORDERS = Stream(
    "orders",
    (
        Column("id", "bigint"),
        Column("customer", "int"),
        Column("amount", "double"),
        Column("price", "decimal(10,2)"),
        Column("name", "string"),
        Column("tags", "array<string>"),
        Column("Odd `Name`", "string"),
        Column("ts", "timestamp"),
    ),
    "ts",
)
PAYMENTS = Stream(
    "Payments",
    (
        Column("order_id", "int"),
        Column("paid", "double"),
        Column("fee", "decimal(12,4)"),
        Column("name", "string"),
        Column("day", "date"),
        Column("ts", "timestamp"),
    ),
    "ts",
)
CLICKS = Stream(
    "clicks",
    (Column("user", "bigint"), Column("page", "string"), Column("score", "float"), Column("ts", "timestamp")),
    "ts",
)
STREAMS = {stream.name: stream for stream in (ORDERS, PAYMENTS, CLICKS)}


def bind(text: str) -> Query:
    """Bind a SELECT over the streams above."""
    return bind_query("q", text, STREAMS)
