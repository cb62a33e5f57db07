"""The fingerprint of a query: what decides its state, so that a checkpoint knows whether it fits."""

from __future__ import annotations

import xxhash

from anabranch.plan.aggregate import NEED_ROWS, aggregate_column, is_bound
from anabranch.plan.logical import AGGREGATES_ALIAS, RESULTS_ALIAS, Aggregate, Grouping, Query, column_name


def fingerprint(query: Query) -> str:
    """Digest of what decides a query's state: references, windows, filters, keys, predicates."""
    refs = [(r.alias, r.stream, r.window_us, r.filter) for r in query.refs]
    classes = [(c.type, [(m.alias, m.field.sql, m.field.type) for m in c.members]) for c in query.classes]
    residuals = sorted(_spelled_out(query, r.sql) for r in query.residuals)
    parts: tuple[object, ...] = (refs, classes, residuals)
    if query.grouping is not None:
        parts += (_grouped(query, query.grouping),)
    return xxhash.xxh3_128_hexdigest(repr(parts).encode())


def _grouped(query: Query, grouping: Grouping) -> tuple[object, ...]:
    keys = [(k.hashed.sql, k.hashed.type) for k in grouping.keys]
    having = None if grouping.having is None else _spelled_out(query, grouping.having)
    if having is not None:
        for number, value in enumerate(grouping.values):
            having = having.replace(f'"{column_name(RESULTS_ALIAS, number)}"', value.name)
        for number, aggregate in enumerate(grouping.aggregates):
            argument = "*" if aggregate.field is None else _argument(query, grouping, aggregate.field)
            having = having.replace(f'"{aggregate_column(number)}"', f"{aggregate.function}({argument})")
    if grouping.window is None:
        return keys, grouping.rows, grouping.distinct, having
    rows = any(a.function in NEED_ROWS for a in grouping.aggregates)
    return keys, grouping.window, rows, having


def _argument(query: Query, grouping: Grouping, field: int) -> str:
    return grouping.values[field].name if grouping.values else query.refs[0].fields[field].sql


def _spelled_out(query: Query, sql: str) -> str:
    """A predicate with its fields written out, so that it does not depend on their numbering."""
    for ref in query.refs:
        for i in reversed(range(len(ref.fields))):
            sql = sql.replace(f'"{ref.alias}.{i}"', f"{ref.alias}:{ref.fields[i].sql}")
    return sql


def fields_kept(query: Query) -> dict[str, list[str]]:
    fields = {r.alias: [f"{f.sql}::{f.type}" for f in r.fields] for r in query.refs}
    if query.grouping is not None and query.grouping.values:
        fields[RESULTS_ALIAS] = [value.name for value in query.grouping.values]
    if query.grouping is not None and query.grouping.window is not None:
        # Windows keep partial aggregates: another function of the same column has none.
        partial = (a for a in query.grouping.aggregates if not is_bound(a.function))
        fields[AGGREGATES_ALIAS] = [_spelled_aggregate(query, a) for a in partial]
    return fields


def _spelled_aggregate(query: Query, aggregate: Aggregate) -> str:
    assert query.grouping is not None
    inputs = (i for i in (aggregate.field, aggregate.by) if i is not None)
    return f"{aggregate.function}({', '.join(_argument(query, query.grouping, i) for i in inputs)})"
