"""Tables in FROM: each becomes columns of the stream that it is joined with where the stream's rows arrive.

A table belongs to the first stream in FROM that is compared with it by `=`. These equalities find its rows;
everything else that the query says about the table is said about columns of that stream.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import xxhash

from anabranch.language.binding.bound_select import BoundSelect
from anabranch.language.binding.predicates import conjuncts
from anabranch.language.binding.scope import Reference
from anabranch.language.expressions.expression import (
    AggregateValue,
    Call,
    Cast,
    ColumnValue,
    Expression,
    aliases_in,
    spark_sql,
)
from anabranch.plan.logical import TableJoin

Tables = dict[str, tuple[TableJoin, ...]]
"""By alias of a stream, the tables that its rows meet."""


def attach_tables(bound: BoundSelect) -> tuple[BoundSelect, Tables]:
    """The same SELECT over streams alone, and the tables that their rows meet."""
    tables: Tables = {}
    for reference in bound.scope.references:
        if reference.table is not None:
            bound, owner, joined = _attach(bound, reference)
            tables[owner] = (*tables.get(owner, ()), joined)
    return replace(bound, scope=replace(bound.scope, references=bound.scope.streams)), tables


def _attach(bound: BoundSelect, reference: Reference) -> tuple[BoundSelect, str, TableJoin]:
    parts = list(conjuncts(bound.conditions))
    sides = [_key_sides(part, reference.alias) for part in parts]
    owners = {next(iter(aliases_in(pair[1]))) for pair in sides if pair is not None}
    owner = next((r.alias for r in bound.scope.streams if r.alias in owners), None)
    if owner is None:
        raise bound.scope.source.error_at(
            reference.start,
            f"table {reference.stream.name} is not joined with a stream by =",
            f"write WHERE stream.key = {reference.alias}.key",
        )
    taken = {i for i, pair in enumerate(sides) if pair is not None and aliases_in(pair[1]) == {owner}}
    keys = tuple((spark_sql(pair[0]), spark_sql(pair[1])) for i in sorted(taken) if (pair := sides[i]))
    digest = xxhash.xxh3_64_hexdigest(repr((reference.stream.name, keys)).encode())[:8]
    joined = TableJoin(f"{reference.stream.name}#{digest}", reference.stream.name, keys)

    def moved(value: ColumnValue) -> ColumnValue:
        if value.alias != reference.alias:
            return value
        return ColumnValue(owner, f"{joined.id}.{value.name}", value.type)

    met = ColumnValue(owner, joined.id, "boolean")
    kept = (_mapped(part, moved) for i, part in enumerate(parts) if i not in taken)
    return _rewritten(bound, (met, *kept), moved), owner, joined


def _key_sides(part: Expression, alias: str) -> tuple[Expression, Expression] | None:
    """The table's side of an equality and the side of one other reference."""
    if not (isinstance(part, Call) and part.name == "equal"):
        return None
    for mine, other in (part.args, part.args[::-1]):
        if aliases_in(mine) == {alias} and len(aliases_in(other) - {alias}) == 1 == len(aliases_in(other)):
            return mine, other
    return None


def _rewritten(
    bound: BoundSelect, conditions: Sequence[Expression], moved: Callable[[ColumnValue], ColumnValue]
) -> BoundSelect:
    grouping = bound.grouping
    if grouping is not None:
        having = None if grouping.having is None else _mapped(grouping.having, moved)
        grouping = replace(grouping, keys=tuple(_mapped(k, moved) for k in grouping.keys), having=having)
    return replace(
        bound,
        conditions=tuple(conditions),
        outputs=tuple((name, _mapped(value, moved)) for name, value in bound.outputs),
        grouping=grouping,
    )


def _mapped(value: Expression, moved: Callable[[ColumnValue], ColumnValue]) -> Expression:
    if isinstance(value, ColumnValue):
        return moved(value)
    if isinstance(value, Cast):
        return replace(value, value=_mapped(value.value, moved))
    if isinstance(value, Call):
        return replace(value, args=tuple(_mapped(arg, moved) for arg in value.args))
    if isinstance(value, AggregateValue):
        argument = None if value.argument is None else _mapped(value.argument, moved)
        by = None if value.by is None else _mapped(value.by, moved)
        return replace(value, argument=argument, by=by)
    return value
