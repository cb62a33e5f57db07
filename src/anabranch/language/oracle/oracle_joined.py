"""The definition of a right result of GROUP BY and DISTINCT above a join.

A result of the join has a time, its newest row's, and a deadline, the first at which one of its rows
leaves its window. Per result: its group's results that are there at its time, joined to it pair by pair.
"""

from __future__ import annotations

from collections.abc import Sequence

from anabranch.language.binding.grouping import BoundGrouping
from anabranch.language.binding.scope import Reference
from anabranch.language.expressions.expression import AggregateValue, Expression, duckdb_sql
from anabranch.language.oracle.grouped_columns import GroupedColumns
from anabranch.language.oracle.oracle_windows import Place, aggregate_sql
from anabranch.plan.logical import UNBOUNDED_US


def joined_sql(
    grouping: BoundGrouping,
    references: Sequence[Reference],
    outputs: Sequence[tuple[str, Expression]],
    conditions: Sequence[Expression],
    within: Sequence[str],
    column: Place,
) -> str:
    """Render a grouped SELECT over a join.

    Parameters
    ----------
    within
        The conditions that the windows are.
    column
        Renders the columns of the streams.
    """
    grouped = GroupedColumns.of(grouping, outputs)

    def argument(value: Expression) -> str | None:
        name = grouped.argument(value)
        return name and f"c.{name}"

    where = " AND ".join([*(duckdb_sql(c, column) for c in conditions), *within]) or "TRUE"
    tables = ", ".join(f'"{r.stream.name}" AS "{r.alias}"' for r in references)
    kept = ", ".join([*grouped.kept(column), *_times(references)])
    joined = f"WITH joined AS (SELECT {kept}\n  FROM {tables}\n  WHERE {where})"
    same_group = "".join(f" AND c.{k} IS NOT DISTINCT FROM r.{k}" for k in grouped.key_names)
    selected = ", ".join(f'{duckdb_sql(value, grouped.place)} AS "{name}"' for name, value in outputs)
    if grouping.distinct:
        names = ", ".join(f"r.{k}" for k in grouped.key_names)
        before = f'c."#time" < r."#time" AND r."#time" <= c."#deadline"{same_group}'
        first = (
            f'SELECT DISTINCT {names}, r."#time" FROM joined r\n'
            f"  WHERE NOT EXISTS (SELECT 1 FROM joined c WHERE {before})"
        )
        return f"{joined}\nSELECT {selected}\nFROM ({first})"
    columns = [f"any_value(r.{k}) AS {k}" for k in grouped.key_names]
    columns += [f'{averaging_sql(a, argument)} AS "#{i}"' for i, a in enumerate(grouped.aggregates)]
    there = f'c."#time" <= r."#time" AND r."#time" <= c."#deadline"{same_group}'
    columns.append("1 AS one")  # a query of constants still has rows
    groups = f'SELECT {", ".join(columns)}\n  FROM joined r JOIN joined c ON {there}\n  GROUP BY r."#row"'
    having = "TRUE" if grouping.having is None else duckdb_sql(grouping.having, grouped.place)
    return f"{joined}\nSELECT {selected}\nFROM ({groups})\nWHERE {having}"


def averaging_sql(value: AggregateValue, argument: Place) -> str:
    """An aggregate of plain GROUP BY."""
    if value.function == "avg" and value.argument is not None:
        # Of a plain avg DuckDB may make a sum divided by a count, which is off by a last digit at times.
        return f"list_avg(list({duckdb_sql(value.argument, argument)}))"
    return aggregate_sql(value, argument)


def _times(references: Sequence[Reference]) -> list[str]:
    """Time, deadline and number of a result of the join."""
    times = [f'epoch_us("{r.alias}"."{r.stream.time}")' for r in references]
    bounded = [
        f"{time} + {r.window_us}"
        for time, r in zip(times, references, strict=True)
        if r.window_us < UNBOUNDED_US
    ]
    deadline = f"least({', '.join(bounded)})" if bounded else f"CAST({UNBOUNDED_US} AS BIGINT)"
    return [
        f'greatest({", ".join(times)}) AS "#time"',
        f'{deadline} AS "#deadline"',
        'row_number() OVER () AS "#row"',
    ]
