"""GROUP BY and DISTINCT above a join: which values of its results are kept, and what they fix."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from anabranch.language.binding.grouping import BoundGrouping, NamedValues, plan_grouping
from anabranch.language.binding.predicates import Predicates, as_key
from anabranch.language.expressions.expression import (
    Cast,
    ColumnValue,
    Expression,
    aliases_in,
    duckdb_sql,
    is_spark_only,
    spark_sql,
)
from anabranch.language.expressions.operators import coerce
from anabranch.language.expressions.types import physical_type
from anabranch.plan.logical import RESULTS_ALIAS, Field, Grouping, Output

MakeOutput = Callable[[str, Expression], Output]


def plan_joined_grouping(
    bound: BoundGrouping, outputs: NamedValues, *, predicates: Predicates, output: MakeOutput
) -> tuple[Grouping, tuple[Output, ...]]:
    """Take a grouping of a join's results apart.

    Parameters
    ----------
    output
        Makes a named column of the join's result of an expression over its references.
    """
    values: dict[Expression, int] = {}
    grouping, planned = plan_grouping(
        bound,
        outputs,
        alias=RESULTS_ALIAS,
        rows=None,
        index_of=lambda _, value: values.setdefault(value, len(values)),
    )
    keys = zip(grouping.keys, dict.fromkeys(bound.keys), strict=True)
    return (
        replace(
            grouping,
            keys=tuple(replace(planned, hashed=_hashed(key, planned.hashed.type)) for planned, key in keys),
            values=tuple(
                replace(output(_content(value), value), type=physical_type(value.type)) for value in values
            ),
            classes=_fixed_classes(bound.keys, predicates),
        ),
        planned,
    )


def _content(value: Expression) -> str:
    """Name of a column of the state: what it holds, so that it outlives a changed SELECT list."""
    return f"{duckdb_sql(value, _qualified)}::{physical_type(value.type)}"


def _hashed(key: Expression, kind: str) -> Field:
    return Field(duckdb_sql(coerce(key, kind), _qualified), kind)


def _qualified(value: Expression) -> str | None:
    if is_spark_only(value):
        (alias,) = aliases_in(value)
        return f'"{alias}"."{spark_sql(value)}"'
    return f'"{value.alias}"."{value.name}"' if isinstance(value, ColumnValue) else None


def _fixed_classes(keys: Sequence[Expression], predicates: Predicates) -> tuple[int, ...]:
    """Key classes of which a group key is a member: all results of a group agree on them."""
    return tuple(
        number
        for number, members in enumerate(predicates.classes)
        if any(member in (key, as_key(key), Cast(key, member.type)) for _, member in members for key in keys)
    )
