"""The definition of a right result of GROUP BY with a window: rows put into windows, and a plain GROUP BY.

The time of a row is its event time, that of a result of a join the largest of its rows. A row lies in every
window that starts at or before its time and ends after it. A session is a group's longest chain of rows in
which no row comes more than the gap after the one before it; it ends so much after its last row.
"""

from __future__ import annotations

from collections.abc import Sequence

from anabranch.language.binding.grouping import BoundGrouping
from anabranch.language.binding.scope import Reference
from anabranch.language.expressions.expression import AggregateValue, Expression, duckdb_sql
from anabranch.language.oracle.grouped_columns import GroupedColumns
from anabranch.language.oracle.oracle_joined import averaging_sql
from anabranch.language.oracle.oracle_windows import Place
from anabranch.plan.logical import GroupWindow

_WINDOW = '"#window"'


def windowed_sql(
    grouping: BoundGrouping,
    references: Sequence[Reference],
    outputs: Sequence[tuple[str, Expression]],
    conditions: Sequence[Expression],
    within: Sequence[str],
    column: Place,
) -> str:
    """Render a SELECT that groups by a window.

    Parameters
    ----------
    within
        The conditions that the windows of a join are.
    column
        Renders the columns of the streams.
    """
    assert grouping.window is not None
    grouped = GroupedColumns.of(grouping, outputs)
    kept = grouped.kept(column)
    kept.append(f'{_time(references)} AS "#time"')
    where = " AND ".join([*(duckdb_sql(c, column) for c in conditions), *within]) or "TRUE"
    tables = ", ".join(f'"{r.stream.name}" AS "{r.alias}"' for r in references)
    names = grouped.key_names
    aggregates = [f'{_aggregate(a, grouped.argument)} AS "#{i}"' for i, a in enumerate(grouped.aggregates)]
    columns = [*names, *aggregates]
    columns.append("1 AS one")  # a query of constants still has rows
    selected = ", ".join(f'{duckdb_sql(value, grouped.place)} AS "{name}"' for name, value in outputs)
    having = "TRUE" if grouping.having is None else duckdb_sql(grouping.having, grouped.place)
    window = ", ".join([*names, _WINDOW])
    return (
        f"WITH rows AS (SELECT {', '.join(kept)}\n  FROM {tables}\n  WHERE {where}),\n"
        f"placed AS ({_placed(grouping.window, names)})\n"
        f"SELECT {selected}\n"
        f"FROM (SELECT {', '.join(columns)} FROM placed GROUP BY {window})\n"
        f"WHERE {having}"
    )


def _time(references: Sequence[Reference]) -> str:
    times = [f'epoch_us("{r.alias}"."{r.stream.time}")' for r in references]
    return times[0] if len(times) == 1 else f"greatest({', '.join(times)})"


def _placed(window: GroupWindow, keys: Sequence[str]) -> str:
    """Rows with a number for each of their windows, and its bounds."""
    if not window.session:
        slide = window.slide_us
        into = f'((("#time" - {window.offset_us}) % {slide}) + {slide}) % {slide}'
        starts = f'unnest(range("#time" - {into}, "#time" - {window.size_us}, -{slide}))'
        numbered = f'SELECT *, {starts} AS "#window" FROM rows'
        bounds = f'"#window" AS "#start", "#window" + {window.size_us} AS "#end"'
        return f"SELECT *, {bounds} FROM ({numbered})"
    group = f"PARTITION BY {', '.join(keys)} " if keys else ""
    after = f'"#time" - lag("#time") OVER ({group}ORDER BY "#time")'
    begun = f'SELECT *, CASE WHEN {after} <= {window.size_us} THEN 0 ELSE 1 END AS "#new" FROM rows'
    numbered = f'SELECT *, sum("#new") OVER ({group}ORDER BY "#time") AS "#window" FROM ({begun})'
    session = f"OVER (PARTITION BY {', '.join([*keys, _WINDOW])})"
    start, end = f'min("#time") {session}', f'max("#time") {session} + {window.size_us}'
    return f'SELECT *, {start} AS "#start", {end} AS "#end" FROM ({numbered})'


def _aggregate(value: AggregateValue, place: Place) -> str:
    match value.function:
        case "window_start" | "window_end":
            return f'make_timestamp(any_value("#{value.function.removeprefix("window_")}"))'
        case "count_distinct":
            return f"count(DISTINCT {_input(value.argument, place)})"
        case "percentile":
            return f"quantile_cont({_input(value.argument, place)}, {value.parameter})"
        case "max_by" | "min_by":
            return _best(value.function, _input(value.argument, place), _input(value.by, place))
    return averaging_sql(value, place)


def _best(function: str, argument: str, by: str) -> str:
    """Among rows with equal `by` the largest value for max_by, the least for min_by; NULL only if all are."""
    extreme, last = ("max", "IS NOT NULL") if function == "max_by" else ("min", "IS NULL")
    row = f"struct_pack(b := {by}, n := {argument} {last}, v := {argument})"
    return f"({extreme}({row}) FILTER (WHERE {by} IS NOT NULL)).v"


def _input(value: Expression | None, place: Place) -> str:
    assert value is not None
    return duckdb_sql(value, place)
