"""Where a step that only Spark computes may stand: over one stream, below aggregates."""

from __future__ import annotations

from anabranch.language.binding.scope import Scope
from anabranch.language.expressions.expression import (
    Call,
    Expression,
    aggregates_in,
    aliases_in,
    is_spark_only,
)
from anabranch.language.expressions.types import Refusal


def refuse_what_only_spark_computes(value: Expression, scope: Scope) -> None:
    """Refuse a step that has no twin in DuckDB where Spark cannot take it: anywhere but over one stream."""
    if not is_spark_only(value):
        return
    what = value.name if isinstance(value, Call) else f"CAST to {value.type.upper()}"
    if any(True for _ in aggregates_in(value)):
        raise Refusal(
            f"{what} of an aggregate is not supported: it is computed where rows arrive",
            "compute it inside the aggregate, or where the results are read",
        )
    used = aliases_in(value)
    # A table's columns become those of the stream that it is joined with.
    if sum(reference.alias in used for reference in scope.streams) > 1:
        raise Refusal(
            f"{what} over two streams is not supported: it is computed where rows of one stream arrive",
            "compute it of each stream, and compare or concatenate the results",
        )
    if not used:
        raise Refusal(f"{what} of constants is not supported", "write its value")
