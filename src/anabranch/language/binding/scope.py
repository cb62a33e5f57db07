"""The FROM clause: stream references, their windows, and the columns a name can mean."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from sqlglot import exp

from anabranch.errors import QueryError
from anabranch.language.expressions.expression import ColumnValue
from anabranch.language.expressions.types import UNKNOWN, is_supported
from anabranch.language.syntax.dialect import StreamWindow
from anabranch.language.syntax.source_text import SourceText, start_of
from anabranch.plan.logical import UNBOUNDED_US, Column, GroupWindow, Stream, Table
from anabranch.plan.vectors import vectors_in

MAX_REFERENCES = 8
MAX_ROWS = 1_000_000
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_INNER = ("INNER", "CROSS")


class NotYetKnown(QueryError):
    """A column of a SELECT at ingest is used before Spark has told what it is."""

    @classmethod
    def of(cls, error: QueryError) -> NotYetKnown:
        """The same error, known as one that goes away when Spark tells."""
        return cls(
            error.message,
            line=error.line,
            column=error.column,
            suggestion=error.suggestion,
            source=error.source,
            path=error.path,
        )


@dataclass(frozen=True, slots=True)
class Reference:
    """One appearance of a stream in FROM."""

    alias: str
    stream: Stream
    window_us: int
    rows: int | None = None
    """n of `[ROWS n]`."""
    windowed: bool = True
    """Whether the window was written down."""
    table: Table | None = None
    """The table, if it is one and no stream; `stream` then has its columns, and no time."""
    start: int = 0
    """Where it stands in the text."""


@dataclass(frozen=True, slots=True)
class NamedWindow:
    """A window of GROUP BY under the name by which SELECT and HAVING know it."""

    name: str
    window: GroupWindow
    type: str
    """Type of its start and its end."""


@dataclass(frozen=True, slots=True)
class Scope:
    """What names mean inside one SELECT."""

    references: tuple[Reference, ...]
    source: SourceText
    without_aggregates: str | None = None
    """The part of the query that is being read, if aggregates cannot stand there."""
    window: NamedWindow | None = None
    """The window of GROUP BY."""

    @property
    def times(self) -> tuple[ColumnValue, ...]:
        """The event time of every reference. That of a result of a join is the largest."""
        return tuple(
            ColumnValue(r.alias, c.name, c.type)
            for r in self.streams
            for c in r.stream.columns
            if c.name.lower() == r.stream.time.lower()
        )

    @property
    def streams(self) -> tuple[Reference, ...]:
        """The references that are no tables."""
        return tuple(r for r in self.references if r.table is None)

    def column(self, node: exp.Column) -> ColumnValue:
        """Resolve `name` or `alias.name`."""
        if node.args.get("db") or node.args.get("catalog"):
            self._refuse_field(node, node.parts[1].name)
            raise self.source.error(node, f"{node.sql('spark')} has too many parts", "write alias.column")
        name = node.name.lower()
        found = [
            (reference, column)
            for reference in self._candidates(node)
            for column in reference.stream.columns
            if column.name.lower() == name
        ]
        if not found:
            raise self._unknown_column(node)
        if len(found) > 1:
            choices = " or ".join(f"{reference.alias}.{node.name}" for reference, _ in found)
            raise self.source.error(node, f"column {node.name!r} is ambiguous", f"write {choices}")
        return self._value(node, *found[0])

    def vector(self, node: exp.Column) -> list[ColumnValue] | None:
        """The numbers of the vector that `name` or `alias.name` means; None where it means none."""
        if node.args.get("db") or isinstance(node.this, exp.Star):
            return None
        found = [
            [ColumnValue(reference.alias, part.name, part.type) for part in vector.elements]
            for reference in self._candidates(node)
            if (vector := vectors_in(reference.stream.columns).get(node.name.lower())) is not None
        ]
        if len(found) > 1:
            choices = " or ".join(f"{numbers[0].alias}.{node.name}" for numbers in found)
            raise self.source.error(node, f"column {node.name!r} is ambiguous", f"write {choices}")
        return found[0] if found else None

    def star(self, node: exp.Expr) -> list[ColumnValue]:
        """Resolve `*` or `alias.*`."""
        references = self._candidates(node) if isinstance(node, exp.Column) else self.references
        self._refuse_unknown_columns(node, references)
        for reference in references:
            if vectors := vectors_in(reference.stream.columns):
                name = next(iter(vectors.values())).name
                raise self.source.error(
                    node, f"* would name every number of the vector {name}", "name the columns that you want"
                )
        return [
            self._value(node, reference, column)
            for reference in references
            for column in reference.stream.columns
        ]

    def _candidates(self, node: exp.Column) -> tuple[Reference, ...]:
        table = node.args.get("table")
        if table is None:
            return self.references
        alias = table.name.lower()
        found = tuple(r for r in self.references if r.alias == alias)
        if not found:
            self._refuse_field(node, table.name)
            aliases = [reference.alias for reference in self.references]
            raise self.source.error(
                table, f"unknown alias {table.name!r}", _did_you_mean(table.name, aliases, "FROM has")
            )
        return found

    def _refuse_field(self, node: exp.Column, name: str) -> None:
        """Say so where `name.field` means a field of a struct."""
        columns = [column for reference in self.references for column in reference.stream.columns]
        struct = next(
            (c for c in columns if c.name.lower() == name.lower() and c.type.startswith("struct")), None
        )
        if struct is not None:
            raise self.source.error(
                node,
                f"column {struct.name!r} is a struct, and queries cannot use its fields",
                f"write CREATE STREAM … AS SELECT {struct.name}.{node.name} AS {node.name}, …",
            )

    def _refuse_unknown_columns(self, node: exp.Expr, references: Iterable[Reference]) -> None:
        """Say so where only Spark can tell which columns there are."""
        for reference in references:
            if not reference.stream.columns:
                raise NotYetKnown.of(
                    self.source.error(
                        node,
                        f"the columns of stream {reference.stream.name} are known when Spark has started",
                        "name them in its SELECT, with CAST(… AS type) AS name, to have them known before",
                    )
                )

    def _unknown_column(self, node: exp.Column) -> Exception:
        candidates = self._candidates(node)
        self._refuse_unknown_columns(node, candidates)
        if (vector := self.vector(node)) is not None:
            name = node.sql("spark")
            message = f"{name} is a vector of {len(vector)} numbers, and no value"
            return self.source.error(node, message, f"write {name}[0], or l2_distance({name}, …)")
        names = [column.name for reference in candidates for column in reference.stream.columns]
        owner = f" in stream {candidates[0].stream.name}" if len(candidates) == 1 else ""
        hint = _did_you_mean(node.name, names, "the columns are")
        return self.source.error(node.this, f"unknown column {node.name!r}{owner}", hint)

    def _value(self, node: exp.Expr, reference: Reference, column: Column) -> ColumnValue:
        if column.type == UNKNOWN:
            raise NotYetKnown.of(
                self.source.error(
                    node,
                    f"the type of column {column.name!r} is known when Spark has started",
                    f"write CAST(… AS type) AS {column.name} in the SELECT of stream {reference.stream.name} "
                    "to have it known before",
                )
            )
        if not is_supported(column.type):
            raise self.source.error(
                node,
                f"column {column.name!r} has type {column.type}, which queries cannot use",
                "name the other columns, and take the parts you need out of it in CREATE STREAM … AS SELECT",
            )
        return ColumnValue(reference.alias, column.name, column.type)


def read_from(
    select: exp.Select, streams: Mapping[str, Stream | Table], source: SourceText
) -> tuple[Scope, list[exp.Expr]]:
    """Read FROM and JOIN: the scope, and the conditions written behind ON."""
    clause = select.args.get("from_")
    if clause is None:
        raise source.error(select, "a query needs FROM", "add FROM and a stream")
    joins = list(select.args.get("joins") or ())
    tables = [clause.this, *(join.this for join in joins)]
    conditions = [condition for join in joins if (condition := _condition(join, source)) is not None]
    if len(tables) > MAX_REFERENCES:
        raise source.error(
            tables[MAX_REFERENCES],
            f"a query joins at most {MAX_REFERENCES} streams",
            "split it into two queries",
        )
    by_name = {name.lower(): stream for name, stream in streams.items()}
    number = sum(not isinstance(by_name.get(table.name.lower()), Table) for table in tables)
    references = [_reference(table, by_name, source, alone=number == 1) for table in tables]
    if references[0].table is not None:
        raise source.error(
            tables[0], "FROM begins with a table", "write a stream first, and the table after it"
        )
    _refuse_repeated_aliases(references, tables, source)
    return Scope(tuple(references), source), conditions


def check_name(identifier: exp.Expr, what: str, source: SourceText) -> str:
    """Names become directories and columns, so they are plain words."""
    if not _NAME.fullmatch(identifier.name):
        raise source.error(
            identifier,
            f"{identifier.name!r} is not a {what}",
            "use letters, digits and _, not starting with a digit",
        )
    return identifier.name


def check_stream(stream: Stream) -> str | None:
    """What is wrong with a stream's columns, or None."""
    names = [column.name.lower() for column in stream.columns]
    if not names:  # Spark will tell
        return None
    repeated = next((name for name in names if names.count(name) > 1), None)
    if repeated:
        return f"stream {stream.name} has two columns named {repeated!r}"
    if stream.time.lower() not in names:
        return f"stream {stream.name} has no column {stream.time!r} to take the time from"
    substituted = next((column.name for column in stream.columns if is_substituted(column.name)), None)
    if substituted:
        return f"stream {stream.name} has a column named {substituted!r}, and Spark would replace its ${{…}}"
    return None


def is_substituted(name: str) -> bool:
    """Whether Spark would read a column's name as a reference to a setting, back-quotes or not."""
    return "${" in name


def _condition(join: exp.Join, source: SourceText) -> exp.Expr | None:
    using = join.args.get("using")
    if using:
        raise source.error_at_keyword(using[0], "USING", "USING is not supported", "write ON a.id = b.id")
    for key in ("method", "side", "kind"):
        word = str(join.args.get(key) or "").upper()
        if word and word not in _INNER:
            message = f"{word} JOIN is not supported: only inner joins are"
            raise source.error_at_keyword(join.this, word, message, "write JOIN … ON")
    for key, value in join.args.items():
        if value and key not in ("this", "on", "kind"):
            raise source.error(join, f"this kind of join ({key}) is not supported", "write JOIN … ON")
    on = join.args.get("on")
    return on if isinstance(on, exp.Expr) else None


def _reference(
    table: exp.Expr, streams: Mapping[str, Stream | Table], source: SourceText, *, alone: bool
) -> Reference:
    if not isinstance(table, exp.Table) or not isinstance(table.this, exp.Identifier):
        hint = "name a stream; sub-queries and functions are not supported"
        keyword = "SELECT" if isinstance(table, exp.Subquery) else ""
        raise source.error_at_keyword(table, keyword, "FROM takes streams only", hint)
    _refuse_table_extras(table, source)
    stream = streams.get(table.name.lower())
    if stream is None:
        names = [known.name for known in streams.values()]
        hint = (
            _did_you_mean(table.name, names, "the streams are") if names else "add a CREATE STREAM statement"
        )
        raise source.error(table, f"unknown stream {table.name!r}", hint)
    if isinstance(stream, Table):
        return _table_reference(table, stream, source)
    problem = check_stream(stream)
    if problem:
        raise source.error(table, problem, "rename or add the column")
    alias_node = table.args.get("alias")
    alias = check_name(alias_node.this, "alias", source) if alias_node and alias_node.this else stream.name
    window = table.args.get("stream_window")
    rows = int(window.args["size"]) if window is not None and window.args["kind"] == "ROWS" else None
    window_us = _window(table, source, alone=alone)
    return Reference(alias.lower(), stream, window_us, rows, windowed=window is not None)


def _table_reference(node: exp.Table, table: Table, source: SourceText) -> Reference:
    window = node.args.get("stream_window")
    if window is not None:
        raise source.error(
            window, f"{table.name} is a table, and tables have no window", f"write {table.name} alone"
        )
    alias_node = node.args.get("alias")
    alias = check_name(alias_node.this, "alias", source) if alias_node and alias_node.this else table.name
    rows = Stream(table.name, table.columns, time="")
    return Reference(alias.lower(), rows, 0, windowed=False, table=table, start=start_of(node))


def _refuse_table_extras(table: exp.Table, source: SourceText) -> None:
    if table.args.get("db") or table.args.get("catalog"):
        raise source.error(
            table, "a stream's name has one part", "declare the source with CREATE STREAM and name that"
        )
    alias = table.args.get("alias")
    if alias is not None and alias.args.get("columns"):
        raise source.error(
            alias, "column lists behind an alias are not supported", "rename in SELECT with AS"
        )
    for key, value in table.args.items():
        if value and key not in ("this", "alias", "stream_window"):
            raise source.error(
                table, f"{key.strip('_').upper()} is not supported on a stream", "name the stream only"
            )


def _window(table: exp.Table, source: SourceText, *, alone: bool) -> int:
    window = table.args.get("stream_window")
    if not isinstance(window, StreamWindow):
        if alone:
            return 0
        raise source.error(
            table,
            f"stream {table.name} has no window, and a join needs one for every stream",
            f"write {table.name} [RANGE 1 HOUR], [NOW] or [RANGE UNBOUNDED]",
        )
    if window.args["kind"] == "ROWS":
        if not alone:
            raise source.error(window, "[ROWS n] is not supported in a join", "write [RANGE n unit]")
        if not 0 < int(window.args["size"]) <= MAX_ROWS:
            raise source.error(
                window, f"[ROWS n] takes 1 to {MAX_ROWS:,} rows", "write [ROWS 100] or [RANGE n unit]"
            )
        return UNBOUNDED_US
    return UNBOUNDED_US if window.args["kind"] == "UNBOUNDED" else int(window.args["size"])


def _refuse_repeated_aliases(
    references: Iterable[Reference], tables: list[exp.Expr], source: SourceText
) -> None:
    seen: set[str] = set()
    for reference, table in zip(references, tables, strict=True):
        if reference.alias in seen:
            raise source.error(
                table,
                f"two streams are called {reference.alias!r} in FROM",
                f"give them different names: {reference.stream.name} [RANGE …] AS {reference.alias}2",
            )
        seen.add(reference.alias)


def _did_you_mean(name: str, names: Iterable[str], otherwise: str) -> str:
    choices = list(dict.fromkeys(names))
    lowered = {choice.lower(): choice for choice in choices}
    near = difflib.get_close_matches(name.lower(), lowered, n=3, cutoff=0.5)
    if near:
        return f"did you mean {' or '.join(lowered[match] for match in near)}?"
    return f"{otherwise} {', '.join(choices)}"
