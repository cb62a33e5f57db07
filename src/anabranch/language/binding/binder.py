"""From the syntax of a SELECT to what it means: resolved, typed, and taken apart for the plan."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from sqlglot import exp

from anabranch.language.binding.bands import band_of, distance_of
from anabranch.language.binding.bound_select import BoundSelect
from anabranch.language.binding.group_window import read_window
from anabranch.language.binding.grouping import bind_grouping, plan_grouping
from anabranch.language.binding.joined_grouping import plan_joined_grouping
from anabranch.language.binding.predicates import key_classes, split_predicates
from anabranch.language.binding.resolve import resolve
from anabranch.language.binding.scope import Reference, Scope, read_from
from anabranch.language.binding.tables import attach_tables
from anabranch.language.expressions.expression import (
    AggregateValue,
    ColumnValue,
    Expression,
    aliases_in,
    duckdb_sql,
    spark_sql,
)
from anabranch.language.expressions.operators import condition
from anabranch.language.expressions.types import INTERVAL, VOID, Refusal, physical_type
from anabranch.language.syntax.source_text import SourceText
from anabranch.plan.logical import (
    Connector,
    Field,
    Output,
    Query,
    Ref,
    Residual,
    Stream,
    Table,
    TableJoin,
    column_name,
)

_ONE_PLAIN_SELECT = "write one plain SELECT … FROM … WHERE"
_PARTS = ("expressions", "from_", "joins", "where", "group", "having", "distinct")
_CLAUSES = {
    "with_": ("WITH", "name the streams in FROM directly"),
    "order": ("ORDER BY", "leave it out: results of a continuous query have no last row"),
    "sort": ("SORT BY", "leave it out: results of a continuous query have no last row"),
    "cluster": ("CLUSTER BY", "leave it out"),
    "distribute": ("DISTRIBUTE BY", "leave it out"),
    "limit": ("LIMIT", "leave it out, and filter in WHERE"),
    "offset": ("OFFSET", "leave it out, and filter in WHERE"),
    "laterals": ("LATERAL VIEW", "explode the column where the stream is read"),
    "windows": ("WINDOW", "put a window on the stream: orders [RANGE 1 HOUR]"),
    "qualify": ("QUALIFY", "put the condition into WHERE"),
    "hint": ("a hint", "leave it out: plans adapt by themselves"),
    "into": ("SELECT INTO", "write CREATE QUERY name INTO format 'path' AS SELECT …"),
}


def bind_select(node: exp.Expr, streams: Mapping[str, Stream | Table], source: SourceText) -> BoundSelect:
    """Resolve a SELECT against the streams it may use."""
    select = _plain_select(node, source)
    scope, joined_on = read_from(select, streams, source)
    scope = replace(scope, window=read_window(select, scope))
    where = select.args.get("where")
    conditions = [*joined_on, *([where.this] if where else [])]
    outputs = tuple(_outputs(select, scope))
    return BoundSelect(
        scope,
        tuple(_condition(part, replace(scope, without_aggregates="WHERE")) for part in conditions),
        outputs,
        bind_grouping(select, scope, outputs),
    )


def plan_query(name: str, bound: BoundSelect, *, sink: Connector | None, text: str) -> Query:
    """Take a bound SELECT apart into filters, keys, residuals and fields."""
    bound, tables = attach_tables(bound)
    references = bound.scope.references
    aliases = [reference.alias for reference in references]
    predicates = split_predicates(bound.conditions, aliases)
    fields = _Fields({alias: {} for alias in aliases})
    residuals = tuple(
        Residual(
            tuple(a for a in aliases if a in aliases_in(conjunct)),
            duckdb_sql(conjunct, fields.place),
            band_of(conjunct, fields.column),
            distance_of(conjunct, fields.column),
        )
        for conjunct in predicates.residuals
    )
    grouping = None
    if bound.grouping is not None and len(references) > 1:
        grouping, outputs = plan_joined_grouping(
            bound.grouping,
            bound.outputs,
            predicates=predicates,
            output=lambda name, value: _output(name, value, fields, aliases),
        )
    elif bound.grouping is not None:
        grouping, outputs = plan_grouping(
            bound.grouping,
            bound.outputs,
            alias=aliases[0],
            rows=references[0].rows,
            index_of=fields.index,
        )
    else:
        outputs = tuple(_output(name, value, fields, aliases) for name, value in bound.outputs)
    refs = tuple(_ref(r, predicates.filters[r.alias], fields, tables.get(r.alias, ())) for r in references)
    return Query(name, refs, key_classes(predicates), residuals, outputs, sink, text, grouping)


@dataclass(slots=True)
class _Fields:
    """The values each reference contributes, numbered as they are first needed."""

    by_alias: dict[str, dict[Field, int]] = field(default_factory=dict)

    def index(self, alias: str, value: Expression) -> int:
        numbered = self.by_alias[alias]
        return numbered.setdefault(Field(spark_sql(value), physical_type(value.type)), len(numbered))

    def place(self, value: Expression) -> str | None:
        """The column of the largest sub-expressions that read one reference."""
        used = aliases_in(value)
        if len(used) != 1:
            return None
        return '"' + self.column(value) + '"'

    def column(self, value: Expression) -> str:
        """The column of an expression that reads one reference."""
        (alias,) = aliases_in(value)
        return column_name(alias, self.index(alias, value))


def _plain_select(node: exp.Expr, source: SourceText) -> exp.Select:
    if isinstance(node, exp.SetOperation):
        what = type(node).__name__.upper()
        raise source.error_at_keyword(node.expression, what, f"{what} is not supported", "write two queries")
    if not isinstance(node, exp.Select):
        raise source.error(node, "a query is a SELECT", _ONE_PLAIN_SELECT)
    for key, value in node.args.items():
        if value and key not in _PARTS:
            what, suggestion = _CLAUSES.get(key, (key.strip("_").upper(), _ONE_PLAIN_SELECT))
            place = value[0] if isinstance(value, list) else value
            place = place if isinstance(place, exp.Expr) else node
            raise source.error_at_keyword(place, what, f"{what} is not supported", suggestion)
    return node


def _condition(node: exp.Expr, scope: Scope) -> Expression:
    value = resolve(node, scope)
    try:
        return condition(value)
    except Refusal as refusal:
        raise scope.source.error(node, refusal.message, refusal.suggestion) from None


def _outputs(select: exp.Select, scope: Scope) -> list[tuple[str, Expression]]:
    found: list[tuple[str, Expression]] = []
    seen: set[str] = set()
    for node in select.expressions:
        for name, value in _columns_of(node, scope):
            if name.lower() in seen:
                raise scope.source.error(
                    node, f"two columns of the result are called {name!r}", f"rename one: … AS {name}_2"
                )
            seen.add(name.lower())
            found.append((name, value))
    if not found:
        raise scope.source.error(select, "SELECT has no columns", "name at least one")
    return found


def _columns_of(node: exp.Expr, scope: Scope) -> list[tuple[str, Expression]]:
    if node.is_star and isinstance(node, exp.Star | exp.Column):
        star = node if isinstance(node, exp.Star) else node.this
        if any(star.args.values()):
            raise scope.source.error(
                node, "* with EXCEPT, REPLACE or RENAME is not supported", "name the columns"
            )
        return [(value.name, value) for value in scope.star(node)]
    inner = node.this if isinstance(node, exp.Alias) else node
    value = resolve(inner, scope)
    if value.type in (VOID, INTERVAL):
        hint = "write CAST(NULL AS type)" if value.type == VOID else "write unix_micros(a) - unix_micros(b)"
        raise scope.source.error(inner, f"a result column cannot have type {value.type}", hint)
    if isinstance(node, exp.Alias):
        return [(node.alias, value)]
    if isinstance(value, ColumnValue) and isinstance(inner, exp.Column):
        return [(inner.name, value)]
    if isinstance(value, AggregateValue):
        called = inner.this if isinstance(inner, exp.Filter) else inner
        return [(called.name.lower(), value)]
    raise scope.source.error(node, "this column of the result has no name", "add AS and a name")


def _output(name: str, value: Expression, fields: _Fields, aliases: list[str]) -> Output:
    used = aliases_in(value)
    if len(aliases) == 1 or len(used) == 1:
        alias = next(iter(used), aliases[0])
        index = fields.index(alias, value)
        return Output(name, value.type, '"' + column_name(alias, index) + '"', (alias, index))
    return Output(name, value.type, duckdb_sql(value, fields.place), None)


def _ref(
    reference: Reference, filters: list[Expression], fields: _Fields, tables: tuple[TableJoin, ...]
) -> Ref:
    sql = " AND ".join(spark_sql(conjunct) for conjunct in filters)
    return Ref(
        alias=reference.alias,
        stream=reference.stream.name,
        window_us=reference.window_us,
        filter=sql or None,
        fields=tuple(fields.by_alias[reference.alias]),
        tables=tables,
    )
