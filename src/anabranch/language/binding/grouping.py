"""GROUP BY, HAVING and DISTINCT: bound against the streams of FROM, and planned."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from sqlglot import exp

from anabranch.language.binding.group_window import is_window
from anabranch.language.binding.resolve import resolve
from anabranch.language.binding.scope import Scope
from anabranch.language.expressions.expression import (
    AggregateValue,
    Call,
    ColumnValue,
    Constant,
    Expression,
    aggregates_in,
    duckdb_sql,
    is_spark_only,
    spark_sql,
)
from anabranch.language.expressions.operators import coerce, condition
from anabranch.language.expressions.types import INTERVAL, VOID, Refusal, key_type
from anabranch.language.syntax.whole_number import whole_number
from anabranch.plan.aggregate import NEED_WINDOW
from anabranch.plan.logical import (
    AGGREGATES_ALIAS,
    Aggregate,
    Field,
    Grouping,
    GroupKey,
    GroupWindow,
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
    window: GroupWindow | None = None
    """One result per group and window, instead of one per row."""


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
    nodes = [node for node in _group_nodes(group, scope) if not is_window(node)] if group else []
    keys = tuple(_key(node, scope, select) for node in nodes)
    for node, (_, value) in zip(_items(select, len(outputs)), outputs, strict=True):
        _check_grouped(value, keys, node, scope)
        _check_rows_at_hand(value, node, scope)
    bound = _having(having, keys, scope) if having else None
    window = None if scope.window is None else scope.window.window
    return BoundGrouping(keys, bound, distinct=False, window=window)


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
            Aggregate(
                a.function,
                None if a.argument is None else index_of(alias, a.argument),
                a.type,
                None if a.by is None else index_of(alias, a.by),
                a.parameter,
            )
            for a in aggregates
        ),
        having=None if bound.having is None else duckdb_sql(bound.having, place),
        distinct=bound.distinct,
        rows=rows,
        window=bound.window,
    )
    return grouping, tuple(Output(n, v.type, duckdb_sql(v, place), where(v)) for n, v in outputs)


def _hashed(key: Expression) -> Field:
    kind = key_type(key.type)
    return Field(spark_sql(coerce(key, kind)), kind)


def _check_windows(select: exp.Select, scope: Scope, what: str) -> None:
    """A join has windows on all its references; a lone stream has one, or GROUP BY has."""
    table, first = select.args["from_"].this, scope.references[0]
    if scope.window is not None:
        if len(scope.streams) == 1 and first.windowed:
            raise scope.source.error(
                table.args["stream_window"],
                f"{scope.window.name} in GROUP BY says which rows count, and so does this",
                f"write FROM {first.stream.name}",
            )
    elif not first.windowed:
        hint = f"write {first.stream.name} [RANGE 1 HOUR], [ROWS 100] or [RANGE UNBOUNDED]"
        if what != "DISTINCT":
            hint += f", or GROUP BY window({first.stream.time}, '5 minutes')"
        missing = f"stream {first.stream.name} has no window, and {what} needs one"
        raise scope.source.error(table, missing, hint)


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


def _key(node: exp.Expr, scope: Scope, select: exp.Select) -> Expression:
    meant = _named_item(node, scope, select)
    value = resolve(meant, replace(scope, without_aggregates="GROUP BY"))
    if isinstance(value, Constant):
        raise scope.source.error(
            node, "GROUP BY takes columns and expressions, not a constant", "write the column's name"
        )
    if value.type in (VOID, INTERVAL):
        raise scope.source.error(node, f"rows cannot be grouped by {value.type}", "CAST it to BIGINT")
    return value


def _named_item(node: exp.Expr, scope: Scope, select: exp.Select) -> exp.Expr:
    """The item of SELECT that an item of GROUP BY names by its alias or its position, or the item itself.

    As in Spark, a column of a stream goes before an alias of the same name.
    """
    items = select.expressions
    if isinstance(node, exp.Literal) and not node.is_string:
        position = whole_number(node.name)
        if position is None or not 1 <= position <= len(items) or any(item.is_star for item in items):
            hint = f"write a position from 1 to {len(items)}, or a name"
            raise scope.source.error(node, f"SELECT has no column {node.name}", hint)
        item: exp.Expr = items[position - 1].unalias()
        return item
    if not isinstance(node, exp.Column) or node.args.get("table"):
        return node
    columns = {c.name.lower() for r in scope.references for c in r.stream.columns}
    named = [i for i in items if isinstance(i, exp.Alias) and i.alias.lower() == node.name.lower()]
    return named[0].this if named and node.name.lower() not in columns else node


def _having(having: exp.Expr, keys: tuple[Expression, ...], scope: Scope) -> Expression:
    value = resolve(having.this, scope)
    _check_grouped(value, keys, having.this, scope)
    _check_rows_at_hand(value, having.this, scope)
    try:
        return condition(value)
    except Refusal as refusal:
        raise scope.source.error(having.this, refusal.message, refusal.suggestion) from None


def _items(select: exp.Select, columns: int) -> list[exp.Expr]:
    """The node behind every result column; a star stands for all it brings."""
    nodes = list(select.expressions)
    return nodes if len(nodes) == columns else [select.expressions[0]] * columns


def _check_rows_at_hand(value: Expression, node: exp.Expr, scope: Scope) -> None:
    """Refuse, without a window in GROUP BY, what cannot be told from summaries of blocks."""
    if scope.window is None:
        for aggregate in aggregates_in(value):
            if aggregate.function in NEED_WINDOW:
                raise scope.source.error(
                    node,
                    f"{_WRITTEN[aggregate.function]} over the window of a stream is not supported",
                    f"GROUP BY window({scope.references[0].stream.time}, '5 minutes') has it",
                )


_WRITTEN = {
    "count_distinct": "COUNT(DISTINCT …)",
    "percentile": "a percentile",
    "max_by": "max_by or last",
    "min_by": "min_by or first",
}


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
    if is_spark_only(value):
        raise scope.source.error(
            node,
            "this is computed where rows arrive, and so before they are grouped",
            "group by the whole expression",
        )
    for part in value.args if isinstance(value, Call) else (value.value,):
        _check_grouped(part, keys, node, scope)
