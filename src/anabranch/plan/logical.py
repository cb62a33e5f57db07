"""What a continuous query means, free of how it runs.

The binder produces these nodes; everything below it (join graph, plans, routing, state layout) is
derived from them. Expressions are kept as SQL text in the dialect of the engine that will evaluate
them: what concerns one stream reference is Spark SQL and is evaluated once, at ingest; what spans
references is DuckDB SQL and is evaluated in the task, over columns named by `column_name`.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import gcd
from typing import Any, Literal

from anabranch.plan.ingest_select import IngestSelect
from anabranch.plan.predicate import Predicate

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
class Preparation:
    """From what a source brings to the columns of a stream, in Spark."""

    declared: tuple[Column, ...]
    """Columns that the source is read with, or that its bytes hold."""
    payload: Connector | None = None
    """Format of the bytes in the source's column `value`, with options."""
    select: IngestSelect | None = None


@dataclass(frozen=True, slots=True)
class Stream:
    """A named source of timed rows."""

    name: str
    columns: tuple[Column, ...]
    time: str
    lateness_us: int = 0
    source: Connector | None = None
    """None when the rows come from a DataFrame handed over in Python."""
    prepared: Preparation | None = None
    """How its columns are made of the source's; None when they are those of the source."""


@dataclass(frozen=True, slots=True)
class Table:
    """Rows without a time that streams are joined with where they arrive."""

    name: str
    columns: tuple[Column, ...]
    source: Connector | None = None
    """None when it is a DataFrame handed over in Python."""
    refresh_us: int | None = None
    """How often it is looked at anew while a run goes on; None for at its start only."""


@dataclass(frozen=True, slots=True)
class TableJoin:
    """A table whose rows a stream's rows meet where they arrive.

    Its columns are then columns of the stream, called `<id>.<column>`, and the column `<id>` says whether
    there was a row to meet.
    """

    id: str
    table: str
    keys: tuple[tuple[str, str], ...]
    """What must be equal: Spark SQL over the table, and over the stream."""

    def is_in(self, condition: str | None) -> bool:
        """Whether a filter asks for a row of the table."""
        return f"`{self.id}`" in (condition or "")


@dataclass(frozen=True, slots=True)
class Field:
    """One value per row of one stream reference, computed by Spark at ingest.

    `sql` is canonical Spark SQL over the stream's own columns (unqualified, back-quoted), so that
    two references that need the same value are seen to need the same value.
    """

    sql: str
    type: str


ARRIVED = Field("arrived", "bigint")
"""The batch in which a row came. The slots know it, so that it does not travel; no column is called so, for
names of columns are quoted."""


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
    tables: tuple[TableJoin, ...] = ()
    """Tables that its rows meet, in the order in which they do."""


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
class Band:
    """Bounds of a difference: `low <= left - right <= high`, both included, None for no bound.

    Left and right are columns (`column_name`), each of one reference. Where `rounding` is empty, they are
    integers, or are ordered like integers (times, decimals of one scale, doubles that are only compared),
    and the difference is exact. Else it is that of floating-point numbers of this type, rounded.
    """

    left: str
    right: str
    low: int | float | None = None
    high: int | float | None = None
    rounding: Literal["", "float", "double"] = ""

    def turned(self) -> Band:
        """The same bounds of `right - left`."""
        low = None if self.high is None else -self.high
        high = None if self.low is None else -self.low
        return Band(self.right, self.left, low, high, self.rounding)


@dataclass(frozen=True, slots=True)
class Distance:
    """Two vectors of doubles, by their columns, that are no further apart than `most` (Euclid)."""

    left: tuple[str, ...]
    right: tuple[str, ...]
    most: float

    def turned(self) -> Distance:
        """The same distance, from right to left: a square has no sign."""
        return Distance(self.right, self.left, self.most)


@dataclass(frozen=True, slots=True)
class Residual:
    """A conjunct that spans references and is no equality: DuckDB SQL over `column_name` columns."""

    aliases: tuple[str, ...]
    sql: str
    band: Band | None = None
    """What it says, if that is the bounds of a difference."""
    distance: Distance | None = None
    """What it says, if that is the largest distance of two vectors."""


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
class GroupWindow:
    """Windows of GROUP BY: one result per group and window.

    Attributes
    ----------
    size_us
        Length of a window, or the gap that ends a session.
    slide_us
        From the start of one window to that of the next; as long as the window, unless windows overlap.
    offset_us
        Windows start at multiples of `slide_us` since 1970, and so much later.
    """

    size_us: int
    slide_us: int
    offset_us: int = 0
    session: bool = False

    @property
    def pane_us(self) -> int:
        """Length of the pieces of time that every window is made of."""
        return gcd(self.size_us, self.slide_us)

    def last_instant(self, time: Any) -> Any:
        """The last time that belongs to a window with `time` in it, or times: after it the window is final.

        >>> GroupWindow(10, 10).last_instant(25), GroupWindow(10, 4).last_instant(25)
        (29, 33)
        >>> GroupWindow(10, 10, session=True).last_instant(25)
        35
        """
        if self.session:
            return time + self.size_us
        return self.last_start(time) + self.size_us - 1

    def last_start(self, time: Any) -> Any:
        """Start of the last window with `time` in it."""
        return time - (time - self.offset_us) % self.slide_us

    def pane_of(self, time: Any) -> Any:
        """Start of the piece of time that `time` lies in."""
        return time - (time - self.offset_us) % self.pane_us


@dataclass(frozen=True, slots=True)
class Aggregate:
    """An aggregate function over a field of the reference, or value of the join; None for COUNT(*)."""

    function: str
    field: int | None
    type: str
    by: int | None = None
    """Field by which max_by and min_by choose."""
    parameter: float | None = None
    """Which percentile."""


@dataclass(frozen=True, slots=True)
class Grouping:
    """GROUP BY or DISTINCT: one result per row, or result of a join, about the windows that end at it.

    Or one result per group and window, where `window` says which windows there are.
    """

    keys: tuple[GroupKey, ...]
    aggregates: tuple[Aggregate, ...]
    having: str | None
    """DuckDB SQL over fields and aggregates (`#.<j>`)."""
    distinct: bool = False
    rows: int | None = None
    """n of `[ROWS n]`; None for windows by time."""
    window: GroupWindow | None = None
    """One result per group and window of time, instead of one per row."""
    values: tuple[Output, ...] = ()
    """Above a join: what is kept of its results, named by content."""
    classes: tuple[int, ...] = ()
    """Above a join: key classes that have one value in a group, because a group key is one of theirs."""


@dataclass(frozen=True, slots=True)
class Member:
    """A query that is answered from the results of another, its representative."""

    query: Query
    """As the user wrote it."""
    predicate: Predicate
    """Which results are its own, over the representative's columns, and ages (`Split.times`)."""
    outputs: tuple[Output, ...]
    """Its columns, over the representative's."""


@dataclass(frozen=True, slots=True)
class Split:
    """How the results of a representative are split.

    Attributes
    ----------
    times
        Columns of the event times of its references, where windows differ. The attribute `age.<i>` is how
        much older the i-th of them is than the newest of all, in microseconds.
    attributes
        Columns that predicates may be about, with their types.
    arrived
        Columns of the batches in which the rows of its references came, where members may join later. The
        attribute `arrived.0` is the first of them.
    """

    members: tuple[Member, ...]
    times: tuple[str, ...]
    attributes: tuple[tuple[str, str], ...]
    arrived: tuple[str, ...] = ()


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
    split: Split | None = None
    """Of a representative: who gets its results."""
    place: str | None = None
    """Name of the sink that it shares with other queries; None where it has one of its own."""

    @property
    def owner(self) -> str:
        """Under whose name its results are written: its own, or that of the sink that it shares."""
        return self.name if self.place is None else self.place

    @property
    def answered(self) -> tuple[Query, ...]:
        """The queries that get its results: itself, or those it represents."""
        return (self,) if self.split is None else tuple(m.query for m in self.split.members)

    @property
    def stateless(self) -> bool:
        """Whether each row is answered by itself, so that it does not matter when it comes."""
        return len(self.refs) == 1 and self.grouping is None


@dataclass(frozen=True, slots=True)
class Flow:
    """Everything a flow file declares."""

    streams: tuple[Stream, ...]
    queries: tuple[Query, ...]
    settings: tuple[tuple[str, str], ...]
    unbound: tuple[tuple[str, str], ...] = ()
    """Queries over columns whose types only Spark can tell, by name, with what is missing."""
    tables: tuple[Table, ...] = ()
    text: str = ""
    """The file as written, from which it is bound again when Spark has told."""
    path: str | None = None


def column_name(alias: str, index: int) -> str:
    """Name under which field `index` of reference `alias` is visible to DuckDB expressions.

    >>> column_name("o", 2)
    'o.2'
    """
    return f"{alias}.{index}"
