"""What a continuous query means, free of how it runs.

The binder produces these nodes; everything below it (join graph, plans, routing, state layout) is
derived from them. Expressions are kept as SQL text in the dialect of the engine that will evaluate
them: what concerns one stream reference is Spark SQL and is evaluated once, at ingest; what spans
references is DuckDB SQL and is evaluated in the task, over columns named by `column_name`.
"""

from __future__ import annotations

from dataclasses import dataclass

AGGREGATES_ALIAS = "#"
"""Stands for a reference in the names of aggregates: no alias can be called so."""
RESULTS_ALIAS = "&"
"""Stands for a reference in the names of values of a join's results that are grouped."""
UNBOUNDED_US = 1 << 62
"""Window of `[RANGE UNBOUNDED]`. Event times stay below 2**53, so `ts + UNBOUNDED_US` cannot overflow."""


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a stream; `type` is Spark's simple string (`bigint`, `decimal(10,2)` …)."""

    name: str
    type: str


@dataclass(frozen=True, slots=True)
class Connector:
    """Where rows come from or go to: a Spark format name, a path (or topic) and its options."""

    format: str
    path: str | None = None
    options: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class Stream:
    """A named source of timed rows."""

    name: str
    columns: tuple[Column, ...]
    time: str
    lateness_us: int = 0
    source: Connector | None = None
    """None when the rows come from a DataFrame handed over in Python."""


@dataclass(frozen=True, slots=True)
class Field:
    """One value per row of one stream reference, computed by Spark at ingest.

    `sql` is canonical Spark SQL over the stream's own columns (unqualified, back-quoted), so that
    two references that need the same value are seen to need the same value.
    """

    sql: str
    type: str


@dataclass(frozen=True, slots=True)
class Ref:
    """One appearance of a stream in FROM, with its window and the values the query takes from it."""

    alias: str
    stream: str
    window_us: int
    """`[RANGE n]` in microseconds; 0 for `[NOW]`; `UNBOUNDED_US` for `[RANGE UNBOUNDED]`."""
    filter: str | None
    """Spark SQL over the stream's columns: the WHERE conjuncts that concern this reference alone."""
    fields: tuple[Field, ...]


@dataclass(frozen=True, slots=True)
class KeyMember:
    """The key that one reference contributes to a key class."""

    alias: str
    field: Field


@dataclass(frozen=True, slots=True)
class KeyClass:
    """References whose keys must all be equal: the equality conjuncts, closed under transitivity.

    Every member's field is already cast to the class's comparison type. A reference appears at most
    once; a second equality inside one reference becomes part of that reference's filter.
    """

    type: str
    members: tuple[KeyMember, ...]


@dataclass(frozen=True, slots=True)
class Residual:
    """A conjunct that spans references and is no equality: DuckDB SQL over `column_name` columns."""

    aliases: tuple[str, ...]
    sql: str


@dataclass(frozen=True, slots=True)
class Output:
    """A column of the result."""

    name: str
    type: str
    sql: str
    """DuckDB SQL over `column_name` columns."""
    field: tuple[str, int] | None
    """(alias, index into that reference's fields) when the column is just that field."""


@dataclass(frozen=True, slots=True)
class GroupKey:
    """A value that rows of one group share."""

    field: int
    """Index into the reference's fields, or above a join into the grouping's values."""
    hashed: Field
    """The same value in the type in which it is hashed."""


@dataclass(frozen=True, slots=True)
class Aggregate:
    """An aggregate function over a field of the reference, or value of the join; None for COUNT(*)."""

    function: str
    field: int | None
    type: str


@dataclass(frozen=True, slots=True)
class Grouping:
    """GROUP BY or DISTINCT: one result per row, or result of a join, about the windows that end at it."""

    keys: tuple[GroupKey, ...]
    aggregates: tuple[Aggregate, ...]
    having: str | None
    """DuckDB SQL over fields and aggregates (`#.<j>`)."""
    distinct: bool = False
    rows: int | None = None
    """n of `[ROWS n]`; None for windows by time."""
    values: tuple[Output, ...] = ()
    """Above a join: what is kept of its results, named by content."""
    classes: tuple[int, ...] = ()
    """Above a join: key classes that have one value in a group, because a group key is one of theirs."""


@dataclass(frozen=True, slots=True)
class Query:
    """A continuous window join of one to eight stream references, and a grouping of its results."""

    name: str
    refs: tuple[Ref, ...]
    classes: tuple[KeyClass, ...]
    residuals: tuple[Residual, ...]
    outputs: tuple[Output, ...]
    sink: Connector | None
    """None when the sink is an object handed over in Python."""
    text: str
    """The SELECT as the user wrote it, for messages."""
    grouping: Grouping | None = None


@dataclass(frozen=True, slots=True)
class Flow:
    """Everything a flow file declares."""

    streams: tuple[Stream, ...]
    queries: tuple[Query, ...]
    settings: tuple[tuple[str, str], ...]


def column_name(alias: str, index: int) -> str:
    """Name under which field `index` of reference `alias` is visible to DuckDB expressions.

    >>> column_name("o", 2)
    'o.2'
    """
    return f"{alias}.{index}"
