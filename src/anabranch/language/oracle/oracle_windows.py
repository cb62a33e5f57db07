"""The definition of a right result of GROUP BY and DISTINCT: window functions of DuckDB.

One row per accepted row. `arrival` numbers the rows of the table in the order in which it holds
them: only `[ROWS n]` looks at it, to tell rows of equal time apart.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from anabranch.language.binding.grouping import BoundGrouping
from anabranch.language.binding.scope import Reference
from anabranch.language.expressions.expression import AggregateValue, Expression, aggregates_in, duckdb_sql
from anabranch.language.expressions.types import INTEGRAL, decimal_digits, duckdb_type
from anabranch.plan.logical import UNBOUNDED_US

_ARRIVAL = '"#arrival"'

Place = Callable[[Expression], str | None]


def grouped_sql(
    grouping: BoundGrouping,
    reference: Reference,
    outputs: Sequence[tuple[str, Expression]],
    conditions: Sequence[Expression],
    column: Place,
) -> str:
    """Render a grouped SELECT over one stream.

    Parameters
    ----------
    column
        Renders the columns of the stream.
    """
    time = f'epoch_us("{reference.alias}"."{reference.stream.time}")'
    keys = ", ".join(duckdb_sql(key, column) for key in grouping.keys)
    partition = f"PARTITION BY {keys} " if keys else ""
    values = [value for _, value in outputs] + ([grouping.having] if grouping.having is not None else [])
    aggregates = list(dict.fromkeys(a for value in values for a in aggregates_in(value)))
    over = f"OVER ({partition}ORDER BY {time}{_frame(reference)})"
    # Apart from what is computed of them: some operations do not take a window function.
    inner = [f'{aggregate_sql(a, column, over)} AS "#{i}"' for i, a in enumerate(aggregates)]
    if grouping.distinct:
        before = f"lag({time}) OVER ({partition}ORDER BY {time}, {_ARRIVAL})"
        inner.append(f'coalesce({time} - {before} > {reference.window_us}, TRUE) AS "#first"')

    def place(value: Expression) -> str | None:
        return f'"#{aggregates.index(value)}"' if isinstance(value, AggregateValue) else column(value)

    selected = ", ".join(f'{duckdb_sql(value, place)} AS "{name}"' for name, value in outputs)
    kept = '"#first"' if grouping.distinct else "TRUE"
    if grouping.having is not None:
        kept = duckdb_sql(grouping.having, place)
    where = " AND ".join(duckdb_sql(c, column) for c in conditions) or "TRUE"
    numbered = f'(SELECT *, row_number() OVER () AS {_ARRIVAL} FROM "{reference.stream.name}")'
    alias = f'"{reference.alias}"'
    windows = f"SELECT {', '.join([f'{alias}.*', *inner])}\n  FROM {numbered} AS {alias}\n  WHERE {where}"
    return f"SELECT {selected}\nFROM ({windows}) AS {alias}\nWHERE {kept}"


def _frame(reference: Reference) -> str:
    if reference.rows is not None:
        return f", {_ARRIVAL} ROWS BETWEEN {reference.rows - 1} PRECEDING AND CURRENT ROW"
    unbounded = reference.window_us >= UNBOUNDED_US
    start = "UNBOUNDED" if unbounded else str(reference.window_us)
    return f" RANGE BETWEEN {start} PRECEDING AND CURRENT ROW"


def aggregate_sql(value: AggregateValue, column: Place, over: str = "") -> str:
    """An aggregate in the type that the language gives it."""
    argument = "*" if value.argument is None else duckdb_sql(value.argument, column)
    call = f"{value.function}({argument}) {over}"
    if value.function == "sum" and value.type in INTEGRAL:
        return f"TRY_CAST({call} AS BIGINT)"
    return f"CAST({call} AS {duckdb_type(value.type)})" if decimal_digits(value.type) else call
