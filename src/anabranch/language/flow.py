"""Whole flow files, and single queries for the Python API."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from sqlglot import exp

from anabranch.language.binding.binder import bind_select, plan_query
from anabranch.language.binding.scope import check_name, is_substituted
from anabranch.language.expressions.types import Refusal, type_name
from anabranch.language.syntax.dialect import parse_select, parse_statements
from anabranch.language.syntax.source_text import SourceText
from anabranch.language.syntax.statements import CreateQuery, CreateStream, SetOption
from anabranch.plan.logical import Column, Connector, Flow, Query, Stream


def parse_flow(text: str, *, path: str | None = None, known: Mapping[str, Stream] | None = None) -> Flow:
    """Read and check a flow file.

    Parameters
    ----------
    text
        Statements `CREATE STREAM`, `CREATE QUERY` and `SET`, separated by semicolons.
    path
        Where the text came from, for messages.
    known
        Streams that a session has already, by name: queries may read them.

    Raises
    ------
    QueryError
        With line, column and a suggestion, at the first thing that is wrong.

    Examples
    --------
    >>> flow = parse_flow('''
    ... CREATE STREAM clicks (user BIGINT, page STRING, ts TIMESTAMP) FROM json 'in' TIME ts;
    ... CREATE QUERY home INTO console AS SELECT user, ts FROM clicks WHERE page = '/';
    ... ''')
    >>> flow.queries[0].refs[0].filter
    "(`page` = '/')"
    """
    source = SourceText(text, path)
    given = {} if known is None else {name.lower(): stream for name, stream in known.items()}
    streams: dict[str, Stream] = dict(given)
    queries: dict[str, Query] = {}
    settings: dict[str, str] = {}
    for statement in parse_statements(source):
        match statement:
            case CreateStream():
                stream = _stream(statement, source)
                _refuse_repetition(statement, streams, source)
                streams[stream.name.lower()] = stream
            case CreateQuery():
                query = _query(statement, streams, source)
                _refuse_repetition(statement, queries, source)
                queries[query.name.lower()] = query
            case SetOption():
                settings[statement.key] = statement.value
    declared = (stream for name, stream in streams.items() if name not in given)
    return Flow(tuple(declared), tuple(queries.values()), tuple(settings.items()))


def bind_query(
    name: str, select_text: str, streams: Mapping[str, Stream], *, sink: Connector | None = None
) -> Query:
    """Bind one SELECT against streams that already exist.

    Examples
    --------
    >>> clicks = Stream("clicks", (Column("user", "bigint"), Column("ts", "timestamp")), "ts")
    >>> bind_query("all", "SELECT user FROM clicks", {"clicks": clicks}).outputs[0].type
    'bigint'
    """
    source = SourceText(select_text)
    select = parse_select(source)
    with _not_too_deep(select, source):
        return plan_query(name, bind_select(select, streams, source), sink=sink, text=select_text)


def _stream(statement: CreateStream, source: SourceText) -> Stream:
    name = check_name(statement.name, "stream name", source)
    columns: list[Column] = []
    for identifier, kind in statement.columns:
        try:
            columns.append(Column(identifier.name, type_name(kind)))
        except Refusal as refusal:
            raise source.error(identifier, refusal.message, refusal.suggestion) from None
        if is_substituted(identifier.name):
            raise source.error(
                identifier,
                f"Spark would replace the ${{…}} in column {identifier.name!r}",
                "rename the column",
            )
        if sum(column.name.lower() == identifier.name.lower() for column in columns) > 1:
            raise source.error(
                identifier, f"column {identifier.name!r} is declared twice", "rename one of them"
            )
    time = next((c for c in columns if c.name.lower() == statement.time.name.lower()), None)
    if time is None:
        names = ", ".join(column.name for column in columns)
        raise source.error(
            statement.time, f"unknown column {statement.time.name!r}", f"the columns are {names}"
        )
    if time.type != "timestamp":
        raise source.error(
            statement.time,
            f"TIME needs a TIMESTAMP, and {time.name} is a {time.type}",
            f"declare {time.name} TIMESTAMP",
        )
    return Stream(name, tuple(columns), time.name, statement.lateness_us, statement.source)


def _query(statement: CreateQuery, streams: Mapping[str, Stream], source: SourceText) -> Query:
    name = check_name(statement.name, "query name", source)
    with _not_too_deep(statement.select, source):
        bound = bind_select(statement.select, streams, source)
        return plan_query(name, bound, sink=statement.sink, text=statement.text)


@contextmanager
def _not_too_deep(select: exp.Expr, source: SourceText) -> Iterator[None]:
    """Expressions are walked by recursion; the parser gets further with some of them than that does."""
    try:
        yield
    except RecursionError:
        raise source.error_at_keyword(
            select,
            "SELECT",
            "an expression of this query is nested too deeply",
            "use fewer operators in a row (IN instead of many =), or compute parts where the stream is read",
        ) from None


def _refuse_repetition(
    statement: CreateStream | CreateQuery, known: Mapping[str, object], source: SourceText
) -> None:
    name = statement.name.name
    if name.lower() in known:
        what = "stream" if isinstance(statement, CreateStream) else "query"
        raise source.error(statement.name, f"{what} {name!r} is declared twice", f"call it {name}_2")
