"""Windowed aggregates and DISTINCT as plan nodes: what they need of the rows of an input, or of a join.

Logical column names: `<alias>.<i>` is a field of the reference, as in joins; `&.<i>` a value of a join's
results; `#.<j>` is the value of aggregate j. No alias can be called so.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from anabranch.plan.layout import Layout, RoutedQuery, field_column, is_wide
from anabranch.plan.logical import AGGREGATES_ALIAS, RESULTS_ALIAS, Grouping, Output, column_name


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
    joined: bool = False
    """Whether the rows are results of a join: each has a deadline of its own, not `window_us` for all."""
    values: tuple[Output, ...] = ()
    """Of a join's results: the physical columns of the state, and how they are computed."""

    @property
    def newest(self) -> int | None:
        """How many of a group's newest rows later windows need; None when time decides."""
        if self.joined:
            return None
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
    """Compile the grouping of a query."""
    refs = routed.query.refs
    joined = len(refs) > 1
    if joined:
        alias, columns = RESULTS_ALIAS, [(v.name, v.type) for v in grouping.values]
    else:
        alias, columns = refs[0].alias, [(field_column(f), f.type) for f in refs[0].fields]
    return WindowNode(
        state=results_state(routed) if joined else layout.inputs[routed.inputs[0]].state,
        window_us=min(r.window_us for r in refs),
        rows=grouping.rows,
        distinct=grouping.distinct,
        keys=tuple(columns[k.field][0] for k in grouping.keys),
        proved=_is_proved(routed, grouping),
        aggregates=tuple(
            AggregateColumn(
                a.function,
                None if a.field is None else columns[a.field][0],
                "" if a.field is None else columns[a.field][1],
                a.type,
            )
            for a in grouping.aggregates
        ),
        having=grouping.having,
        names={column_name(alias, k.field): columns[k.field][0] for k in grouping.keys},
        joined=joined,
        values=grouping.values,
    )


def results_state(routed: RoutedQuery) -> str:
    """State of a join's results. All tracks write to it and none owns it: it does not depend on the plan."""
    return f"{routed.query.name}-results-{routed.since}"


def _is_proved(routed: RoutedQuery, grouping: Grouping) -> bool:
    if any(is_wide(k.hashed.type) for k in grouping.keys) or len(grouping.keys) > 1:
        return False
    if len(routed.query.refs) == 1:
        return True
    types = [routed.query.classes[c].type for c in routed.routing]
    return types == [k.hashed.type for k in grouping.keys]
