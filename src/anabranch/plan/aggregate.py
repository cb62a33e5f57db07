"""Windowed aggregates and DISTINCT as plan nodes: what they need of the rows of an input, or of a join.

Logical column names: `<alias>.<i>` is a field of the reference, as in joins; `&.<i>` a value of a join's
results; `#.<j>` is the value of aggregate j. No alias can be called so.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from anabranch.plan.inputs import Layout, RoutedQuery, field_column, is_wide
from anabranch.plan.logical import AGGREGATES_ALIAS, RESULTS_ALIAS, Grouping, GroupWindow, Output, column_name
from anabranch.plan.states.state_id import StateId, StateKind

NEED_ROWS = frozenset(("count_distinct", "percentile"))
"""Functions that cannot be told from partial aggregates: they look at the rows of a window."""
BEST_ROWS = frozenset(("max_by", "min_by"))
"""Functions that look at rows, of which the best of each part of a window is enough."""
NEED_WINDOW = NEED_ROWS | BEST_ROWS
"""What windows of GROUP BY have, and those that end at rows have not."""


def is_bound(function: str) -> bool:
    """Whether an aggregate is the start or the end of its window."""
    return function in ("window_start", "window_end")


@dataclass(frozen=True, slots=True)
class AggregateColumn:
    """An aggregate of a physical column of the input; None is COUNT(*)."""

    function: str
    column: str | None
    argument_type: str
    type: str
    by: str | None = None
    """Column by which max_by and min_by choose."""
    parameter: float | None = None
    """Which percentile."""

    @property
    def inputs(self) -> tuple[str, ...]:
        """Columns that it is computed from."""
        return tuple(column for column in (self.column, self.by) if column is not None)

    def __str__(self) -> str:
        inputs = [column.rsplit("::", 1)[0] for column in self.inputs] or ["*"]
        inputs += [] if self.parameter is None else [f"{self.parameter:g}"]
        return self.function if is_bound(self.function) else f"{self.function}({', '.join(inputs)})"


@dataclass(frozen=True, slots=True)
class WindowNode:
    """One result per row: its group's rows inside the window that ends at it, aggregated or compared."""

    state: StateId
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
    """Whether the rows are results of a join: each has a deadline of its own, not `window_us` for all.

    Rows that windows of GROUP BY are made of lie in such a state too, also those of a single stream.
    """
    values: tuple[Output, ...] = ()
    """Of a join's results: the physical columns of the state, and how they are computed."""
    regrouped: bool = False
    """Of a join's results: whether they lie in the partition of their group, not in that of the join."""
    grouped: GroupWindow | None = None
    """One result per group and window of these, instead of one per row."""

    @property
    def condensed(self) -> bool:
        """Whether the state keeps partial aggregates of each group, instead of rows."""
        return self.grouped is not None and not NEED_ROWS.intersection(a.function for a in self.aggregates)

    @property
    def newest(self) -> int | None:
        """How many of a group's newest rows later windows need; None when time decides."""
        if self.joined:
            return None
        if self.rows is not None:
            return self.rows - 1
        return 1 if self.distinct else None

    def last_instant(self, newest: int) -> int:
        """The last time of results, with rows up to `newest`: that time, or the end of its window."""
        return newest if self.grouped is None else int(self.grouped.last_instant(newest))


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
    window, own_state = grouping.window, joined or grouping.window is not None
    return WindowNode(
        state=results_state(routed) if own_state else layout.inputs[routed.inputs[0]].state,
        window_us=min(r.window_us for r in refs) if window is None else window.size_us,
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
                None if a.by is None else columns[a.by][0],
                a.parameter,
            )
            for a in grouping.aggregates
        ),
        having=grouping.having,
        names={column_name(alias, k.field): columns[k.field][0] for k in grouping.keys},
        joined=own_state,
        values=grouping.values,
        regrouped=routed.regrouped,
        grouped=window,
    )


def results_state(routed: RoutedQuery) -> StateId:
    """State of a join's results. All tracks write to it and none owns it: it does not depend on the plan.

    It is the query's own. Were it shared and one of its queries failed at one site, nobody could say which
    rows are there; queries that group alike are better answered by one (`queries.grouping.representative`).
    """
    return StateId.of(StateKind.RESULTS, routed.query.name, (routed.query.name, routed.since))


def _is_proved(routed: RoutedQuery, grouping: Grouping) -> bool:
    if any(is_wide(k.hashed.type) for k in grouping.keys) or len(grouping.keys) > 1:
        return False
    if len(routed.query.refs) == 1:
        return True
    if routed.regrouped:
        return False
    types = [routed.query.classes[c].type for c in routed.placed_by]
    return types == [k.hashed.type for k in grouping.keys]
