"""Whole flow files, and single queries for the Python API."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager

from sqlglot import exp

from anabranch.language.binding.binder import bind_select, plan_query
from anabranch.language.binding.scope import NotYetKnown, check_name
from anabranch.language.expressions.user_predicates import without_predicates
from anabranch.language.ingest.bind_stream import bind_stream, bind_table
from anabranch.language.shared_columns import not_alike, same_sink
from anabranch.language.syntax.dialect import parse_select, parse_statements
from anabranch.language.syntax.patterns import Patterns
from anabranch.language.syntax.source_text import SourceText
from anabranch.language.syntax.statements import CreateQuery, CreateStream, CreateTable, SetOption, Statement
from anabranch.plan.logical import Column, Connector, Flow, Query, Stream, Table

ColumnsOf = Callable[[Stream], tuple[Column, ...]]
"""Tells the columns of a stream that a SELECT makes; only Spark can."""


def parse_flow(
    text: str,
    *,
    path: str | None = None,
    columns_of: ColumnsOf | None = None,
    known: Mapping[str, Stream] | None = None,
) -> Flow:
    """Read and check a flow file.

    Parameters
    ----------
    text
        Statements `CREATE STREAM`, `CREATE TABLE`, `CREATE QUERY` and `SET`, separated by semicolons.
    path
        Where the text came from, for messages.
    columns_of
        Tells the columns of streams with a SELECT. Without it they are told from the text as far as that
        goes, and queries that need more are left `unbound`.
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
    declared = _Declared(source, columns_of, given)
    for statement in parse_statements(source):
        declared.add(statement)
    return declared.flow()


class _Declared:
    """What the statements read so far declare; case does not tell names apart."""

    def __init__(self, source: SourceText, columns_of: ColumnsOf | None, given: Mapping[str, Stream]) -> None:
        self._source = source
        self._columns_of = columns_of
        self._given = given
        self._streams: dict[str, Stream] = dict(given)
        self._tables: dict[str, Table] = {}
        self._queries: dict[str, Query] = {}
        self._unbound: dict[str, str] = {}
        self._settings: dict[str, str] = {}

    def add(self, statement: Statement) -> None:
        """Bind a statement against those before it."""
        match statement:
            case CreateStream():
                stream = bind_stream(statement, self._source, self._columns_of)
                _refuse_repetition(statement, self._sources, self._source)
                self._streams[stream.name.lower()] = stream
            case CreateTable():
                table = bind_table(statement, self._source)
                _refuse_repetition(statement, self._sources, self._source)
                self._tables[table.name.lower()] = table
            case CreateQuery():
                self._add_query(statement)
            case SetOption():
                self._settings[statement.key] = statement.value

    def _add_query(self, statement: CreateQuery) -> None:
        _refuse_repetition(statement, {**self._queries, **self._unbound}, self._source)
        try:
            with without_predicates():
                query = _query(statement, self._sources, self._source)
        except NotYetKnown as missing:
            if self._columns_of is not None:
                raise
            self._unbound[statement.name.name] = str(missing)
        else:
            _refuse_other_columns(statement, query, self._queries.values(), self._source)
            self._queries[query.name.lower()] = query

    @property
    def _sources(self) -> dict[str, Stream | Table]:
        return {**self._streams, **self._tables}

    def flow(self) -> Flow:
        """All of it, without the streams that were there before."""
        return Flow(
            tuple(stream for name, stream in self._streams.items() if name not in self._given),
            tuple(self._queries.values()),
            tuple(self._settings.items()),
            tuple(self._unbound.items()),
            tuple(self._tables.values()),
            self._source.text,
            self._source.path,
        )


def _refuse_other_columns(
    statement: CreateQuery, query: Query, others: Iterable[Query], source: SourceText
) -> None:
    """Queries that write to one sink have the same columns there."""
    where = same_sink(query.sink)
    beside = next((o for o in others if where is not None and same_sink(o.sink) == where), None)
    if beside is None:
        return
    for one in (beside, query):
        if (why := not_alike(beside, one)) is not None:
            raise source.error(statement.name, f"query {one.name!r} {why[0]}", why[1])


def bind_query(
    name: str, select_text: str, streams: Mapping[str, Stream | Table], *, sink: Connector | None = None
) -> Query:
    """Bind one SELECT against streams and tables that already exist.

    Examples
    --------
    >>> clicks = Stream("clicks", (Column("user", "bigint"), Column("ts", "timestamp")), "ts")
    >>> bind_query("all", "SELECT user FROM clicks", {"clicks": clicks}).outputs[0].type
    'bigint'
    """
    source = SourceText(select_text)

    def bound(select: exp.Expr) -> Query:
        with _not_too_deep(select, source):
            return plan_query(name, bind_select(select, streams, source), sink=sink, text=select_text)

    return _SELECTS.read(select_text, bound)


_SELECTS = Patterns(lambda text: parse_select(SourceText(text)))


def _query(statement: CreateQuery, streams: Mapping[str, Stream | Table], source: SourceText) -> Query:
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
    except LookupError as error:
        raise source.error_at_keyword(
            select,
            "SELECT",
            f"an expression of this query cannot be computed over two streams: {error}",
            "compute it of each stream, and compare or concatenate the results",
        ) from error


def _refuse_repetition(
    statement: CreateStream | CreateTable | CreateQuery, known: Mapping[str, object], source: SourceText
) -> None:
    name = statement.name.name
    if name.lower() in known:
        kinds = {CreateStream: "stream", CreateTable: "table", CreateQuery: "query"}
        what = kinds[type(statement)]
        raise source.error(statement.name, f"{what} {name!r} is declared twice", f"call it {name}_2")
