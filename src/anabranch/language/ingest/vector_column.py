"""`v DOUBLE[40]` in CREATE STREAM, and `CAST(x AS DOUBLE[40]) AS v` in its SELECT: arrays with a length."""

from __future__ import annotations

from sqlglot import exp

from anabranch.language.expressions.functions import MOST_DIMENSIONS
from anabranch.language.expressions.types import FLOATING, Refusal, type_name
from anabranch.language.syntax.whole_number import whole_number
from anabranch.plan.vectors import Vector


def vector_of(name: str, kind: exp.DataType) -> Vector | None:
    """The vector that a column of this type is; None where it is none. Raises `Refusal` where it cannot be.

    >>> vector_of("v", exp.DataType.build("DOUBLE[3]", dialect="spark"))
    Vector(name='v', type='double', length=3)
    >>> vector_of("n", exp.DataType.build("DOUBLE", dialect="spark")) is None
    True
    """
    if kind.this != exp.DType.ARRAY:
        return None
    written = [value.name for value in kind.args.get("values") or ()]
    inner = kind.expressions[0] if kind.expressions else None
    length = whole_number(written[0]) if len(written) == 1 else None
    number = type_name(inner) if isinstance(inner, exp.DataType) else ""
    if number not in FLOATING or length is None or not 1 <= length <= MOST_DIMENSIONS:
        raise Refusal(
            f"{kind.sql('spark')} is not supported",
            f"say how many numbers it has: {name} DOUBLE[3], or FLOAT[3], up to {MOST_DIMENSIONS}; or take "
            "it apart with CREATE STREAM … AS SELECT",
        )
    return Vector(name, number, length)


def refuse_length(name: str, kind: exp.DataType) -> None:
    """Raise `Refusal` for a length that a SELECT at ingest would lose."""
    if kind.args.get("values"):
        number, length = kind.expressions[0].sql("spark"), kind.args["values"][0].name
        raise Refusal(
            f"{number}[{length}] cannot be the type of a column that a SELECT takes",
            f"write {name} ARRAY<{number}>, and CAST({name} AS {number}[{length}]) AS {name} in the SELECT",
        )


def selected_vector(item: exp.Expr) -> Vector | None:
    """The vector that an item of a SELECT at ingest is: a cast to an array with a length, with a name."""
    cast = item.this if isinstance(item, exp.Alias) else None
    if not isinstance(cast, exp.Cast) or not cast.args["to"].args.get("values"):
        return None
    return vector_of(item.alias, cast.args["to"])
