"""GROUP BY, HAVING and DISTINCT: bound against the streams of FROM, and planned."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from sqlglot import exp

from anabranch.language.expression import (
    AggregateValue,
    Call,
    Cast,
    ColumnValue,
    Constant,
    Expression,
    duckdb_sql,
    spark_sql,
)
from anabranch.language.operators import coerce, condition
from anabranch.language.resolve import resolve
from anabranch.language.scope import Scope
from anabranch.language.types import INTERVAL, VOID, Refusal, key_type
from anabranch.plan.logical import (
    AGGREGATES_ALIAS,
    Aggregate,
    Field,
    Grouping,
    GroupKey,
    Output,
    column_name,
)

NamedValues = Sequence[tuple[str, Expression]]


@dataclass(frozen=True, slots=True)
class BoundGrouping:
    """What makes a group, and which of its results count."""

    keys: tuple[Expression, ...]
    having: Expression | None
    distinct: bool


def bind_grouping(select: exp.Select, scope: Scope, outputs: NamedValues) -> BoundGrouping | None:
    """The grouping of a SELECT whose result columns are resolved; None for a plain SELECT."""
    group, having, distinct = (select.args.get(key) for key in ("group", "having", "distinct"))
    aggregated = any(True for _, value in outputs for _ in aggregates_in(value))
    if not (group or having or distinct or aggregated):
        _refuse_rows_window(select, scope)
        return None
    what = "DISTINCT" if distinct else "GROUP BY" if group else "HAVING" if having else "an aggregate"
    _check_windows(select, scope, what)
    if distinct:
        return _distinct(select, scope, outputs)
    keys = tuple(_key(node, scope) for node in _group_nodes(group, scope)) if group else ()
    for node, (_, value) in zip(_items(select, len(outputs)), outputs, strict=True):
        _check_grouped(value, keys, node, scope)
    return BoundGrouping(keys, _having(having, keys, scope) if having else None, distinct=False)


def plan_grouping(
    bound: BoundGrouping,
    outputs: NamedValues,
    *,
    alias: str,
    rows: int | None,
    index_of: Callable[[str, Expression], int],
) -> tuple[Grouping, tuple[Output, ...]]:
    """Take a grouping apart into fields of its reference, aggregates, and what is computed of them."""
    fields = {key: index_of(alias, key) for key in bound.keys}
    values = [value for _, value in outputs] + ([bound.having] if bound.having is not None else [])
    aggregates = list(dict.fromkeys(a for value in values for a in aggregates_in(value)))

    def where(value: Expression) -> tuple[str, int] | None:
        if isinstance(value, AggregateValue):
            return AGGREGATES_ALIAS, aggregates.index(value)
        return (alias, fields[value]) if value in fields else None

    def place(value: Expression) -> str | None:
        found = where(value)
        return None if found is None else f'"{column_name(*found)}"'

    grouping = Grouping(
        keys=tuple(GroupKey(fields[key], _hashed(key)) for key in fields),
        aggregates=tuple(
            Aggregate(a.function, None if a.argument is None else index_of(alias, a.argument), a.type)
            for a in aggregates
        ),
        having=None if bound.having is None else duckdb_sql(bound.having, place),
        distinct=bound.distinct,
        rows=rows,
    )
    return grouping, tuple(Output(n, v.type, duckdb_sql(v, place), where(v)) for n, v in outputs)


def aggregates_in(value: Expression) -> Iterator[AggregateValue]:
    """The aggregates that an expression is computed from."""
    if isinstance(value, AggregateValue):
        yield value
    elif isinstance(value, Cast):
        yield from aggregates_in(value.value)
    elif isinstance(value, Call):
        for argument in value.args:
            yield from aggregates_in(argument)


def _hashed(key: Expression) -> Field:
    kind = key_type(key.type)
    return Field(spark_sql(coerce(key, kind)), kind)


def _check_windows(select: exp.Select, scope: Scope, what: str) -> None:
    """A join has windows on all its references; a lone stream may have none."""
    if not scope.references[0].windowed:
        name = scope.references[0].stream.name
        raise scope.source.error(
            select.args["from_"].this,
            f"stream {name} has no window, and {what} needs one",
            f"write {name} [RANGE 1 HOUR], [ROWS 100] or [RANGE UNBOUNDED]",
        )


def _refuse_rows_window(select: exp.Select, scope: Scope) -> None:
    if any(r.rows is not None for r in scope.references):
        raise scope.source.error(
            select.args["from_"].this.args["stream_window"],
            "[ROWS n] is a window for aggregates only",
            "add an aggregate, or write [RANGE n unit]",
        )


def _distinct(select: exp.Select, scope: Scope, outputs: NamedValues) -> BoundGrouping:
    node = select.args["distinct"]
    first = select.expressions[0]
    if isinstance(node, exp.Distinct) and node.args.get("on"):
        raise scope.source.error(first, "DISTINCT ON is not supported", "write SELECT DISTINCT a, b")
    if select.args.get("group") or select.args.get("having"):
        raise scope.source.error(
            first, "DISTINCT and GROUP BY cannot stand in one query", "leave DISTINCT out"
        )
    if any(True for _, value in outputs for _ in aggregates_in(value)):
        raise scope.source.error(first, "DISTINCT of aggregates is not supported", "leave DISTINCT out")
    if scope.references[0].rows is not None:
        raise scope.source.error(
            select.args["from_"].this, "DISTINCT over [ROWS n] is not supported", "write [RANGE n unit]"
        )
    return BoundGrouping(tuple(dict.fromkeys(value for _, value in outputs)), None, distinct=True)


def _group_nodes(group: exp.Expr, scope: Scope) -> list[exp.Expr]:
    extras = [key for key, value in group.args.items() if value and key != "expressions"]
    odd = [n for n in group.expressions if isinstance(n, exp.Cube | exp.Rollup | exp.GroupingSets)]
    if extras or odd or not group.expressions:
        what = (extras or [type(n).__name__ for n in odd] or ["ALL"])[0].upper()
        raise scope.source.error_at_keyword(
            group, "GROUP BY", f"GROUP BY {what} is not supported", "write GROUP BY and the columns"
        )
    return list(group.expressions)


def _key(node: exp.Expr, scope: Scope) -> Expression:
    value = resolve(node, replace(scope, without_aggregates="GROUP BY"))
    if isinstance(value, Constant):
        raise scope.source.error(
            node, "GROUP BY takes columns and expressions, not a constant", "write the column's name"
        )
    if value.type in (VOID, INTERVAL):
        raise scope.source.error(node, f"rows cannot be grouped by {value.type}", "CAST it to BIGINT")
    return value


def _having(having: exp.Expr, keys: tuple[Expression, ...], scope: Scope) -> Expression:
    value = resolve(having.this, scope)
    _check_grouped(value, keys, having.this, scope)
    try:
        return condition(value)
    except Refusal as refusal:
        raise scope.source.error(having.this, refusal.message, refusal.suggestion) from None


def _items(select: exp.Select, columns: int) -> list[exp.Expr]:
    """The node behind every result column; a star stands for all it brings."""
    nodes = list(select.expressions)
    return nodes if len(nodes) == columns else [select.expressions[0]] * columns


def _check_grouped(value: Expression, keys: tuple[Expression, ...], node: exp.Expr, scope: Scope) -> None:
    """Refuse a column that has several values in a group."""
    if value in keys or isinstance(value, AggregateValue | Constant):
        return
    if isinstance(value, ColumnValue):
        columns = [c for c in node.find_all(exp.Column) if c.name.lower() == value.name.lower()]
        name = f"{value.alias}.{value.name}" if len(scope.references) > 1 else value.name
        raise scope.source.error(
            columns[0] if columns else node,
            f"column {name!r} is neither grouped by nor aggregated",
            f"add it to GROUP BY, or write max({name})",
        )
    for part in value.args if isinstance(value, Call) else (value.value,):
        _check_grouped(part, keys, node, scope)
