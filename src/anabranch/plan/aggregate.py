"""Windowed aggregates and DISTINCT as plan nodes: what they need of the rows of one input.

Logical column names: `<alias>.<i>` is a field of the reference, as in joins; `#.<j>` is the value of
aggregate j, which no alias can be called.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from anabranch.plan.layout import Layout, RoutedQuery, field_column, is_wide
from anabranch.plan.logical import AGGREGATES_ALIAS, Grouping, column_name


@dataclass(frozen=True, slots=True)
class AggregateColumn:
    """An aggregate of a physical column of the input; None is COUNT(*)."""

    function: str
    column: str | None
    argument_type: str
    type: str

    def __str__(self) -> str:
        return f"{self.function}({'*' if self.column is None else self.column.rsplit('::', 1)[0]})"


@dataclass(frozen=True, slots=True)
class WindowNode:
    """One result per row: its group's rows inside the window that ends at it, aggregated or compared."""

    state: str
    window_us: int
    rows: int | None
    """n of `[ROWS n]`; None for windows by time."""
    distinct: bool
    keys: tuple[str, ...]
    """Physical columns of the group keys."""
    proved: bool
    """Whether equal routing hashes prove equal keys, as long as none is NULL."""
    aggregates: tuple[AggregateColumn, ...]
    having: str | None
    names: Mapping[str, str]
    """Logical to physical columns of the keys."""

    @property
    def newest(self) -> int | None:
        """How many of a group's newest rows later windows need; None when time decides."""
        if self.rows is not None:
            return self.rows - 1
        return 1 if self.distinct else None


def aggregate_column(index: int) -> str:
    """Logical column of aggregate `index`.

    >>> aggregate_column(0)
    '#.0'
    """
    return column_name(AGGREGATES_ALIAS, index)


def window_node(layout: Layout, routed: RoutedQuery, grouping: Grouping) -> WindowNode:
    """Compile the grouping of a query over one stream."""
    (ref,) = routed.query.refs
    columns = [field_column(f) for f in ref.fields]
    narrow = not any(is_wide(k.hashed.type) for k in grouping.keys)
    return WindowNode(
        state=layout.inputs[routed.inputs[0]].state,
        window_us=ref.window_us,
        rows=grouping.rows,
        distinct=grouping.distinct,
        keys=tuple(columns[k.field] for k in grouping.keys),
        proved=narrow and len(grouping.keys) <= 1,
        aggregates=tuple(
            AggregateColumn(
                a.function,
                None if a.field is None else columns[a.field],
                "" if a.field is None else ref.fields[a.field].type,
                a.type,
            )
            for a in grouping.aggregates
        ),
        having=grouping.having,
        names={column_name(ref.alias, k.field): columns[k.field] for k in grouping.keys},
    )
