"""The grammar: Spark SQL plus stream windows, `CREATE STREAM`, `CREATE TABLE`, `CREATE QUERY` and `SET`.

Functions are parsed by name only. sqlglot would turn many of them into canonical nodes that mean the
same as some Spark function most of the time; here what the user wrote must reach the allow-list as it is.
"""

from __future__ import annotations

from difflib import get_close_matches
from itertools import pairwise
from typing import NoReturn

from sqlglot import exp
from sqlglot.dialects.spark import Spark
from sqlglot.errors import ErrorLevel, ParseError
from sqlglot.parser import Parser
from sqlglot.parsers.spark import SparkParser
from sqlglot.tokenizer_core import Token, TokenType

from anabranch.language.syntax.duration import DURATION_HINT, duration_us
from anabranch.language.syntax.located import located
from anabranch.language.syntax.source_text import SourceText
from anabranch.language.syntax.statements import CreateQuery, CreateStream, CreateTable, SetOption, Statement
from anabranch.language.syntax.whole_number import whole_number
from anabranch.plan.logical import Connector

MAX_TEXT = 1_000_000
MAX_WINDOW_US = 1 << 53
_SINKS = ("parquet", "console", "memory", "kafka")
"""Formats behind INTO that are not Spark's; what looks like one of them is a slip of the pen."""


class StreamWindow(exp.Expression):
    """`[RANGE n unit]`, `[NOW]`, `[RANGE UNBOUNDED]` or `[ROWS n]` behind a stream's name."""

    arg_types = {"kind": True, "size": False}


class AnabranchParser(SparkParser):
    """Spark's parser with our statements and windows, and without its view of functions."""

    FUNCTIONS = {}
    NO_PAREN_FUNCTIONS = {}
    NO_PAREN_FUNCTION_PARSERS = {"CASE": lambda self: self._parse_case()}
    # Only those whose arguments are not a plain list.
    FUNCTION_PARSERS = {
        name: SparkParser.FUNCTION_PARSERS[name] for name in ("CAST", "TRY_CAST", "EXTRACT", "TRIM")
    }

    def raise_error(self, message: str, token: Token | None = None) -> NoReturn:
        """Stop at the first error, without sqlglot's terminal colours, at the token's first character."""
        token = token or self._curr or self._prev
        error = ParseError.new(message, description=message)
        error.errors[0]["start"] = token.start if token else 0
        raise error

    def expression(  # type: ignore[override]
        self, instance: exp.Expression, token: Token | None = None, comments: list[str] | None = None
    ) -> exp.Expression:
        """Every node remembers where it was read, so that every refusal can point at it."""
        node = super().expression(instance, token, comments)
        if "start" not in node.meta and self._prev:
            node.update_positions(self._prev)
        return node

    def parse_flow(self, tokens: list[Token], text: str) -> list[Statement]:
        """Read the statements of a flow file."""
        statements: list[Statement] = []

        def collect(parser: Parser) -> None:
            statement = self._parse_flow_statement()
            if statement is not None:
                statements.append(statement)

        self._parse(collect, tokens, text)
        return statements

    def _parse_flow_statement(self) -> Statement | None:
        # A semicolon with a comment behind it reaches us as a statement of its own.
        if not self._curr or self._match(TokenType.SEMICOLON):
            return None
        if self._match_text_seq("CREATE", "STREAM"):
            return self._parse_create_stream()
        if self._match_text_seq("CREATE", "TABLE"):
            return self._parse_create_table()
        if self._match_text_seq("CREATE", "QUERY"):
            return self._parse_create_query()
        if not self._match(TokenType.SET):
            self.raise_error("expected CREATE STREAM, CREATE TABLE, CREATE QUERY or SET")
        return self._parse_set_option()

    def _parse_create_stream(self) -> CreateStream:
        name = self._parse_name("a stream name")
        columns = self._parse_columns() if self._match(TokenType.L_PAREN) else ()
        if not self._match(TokenType.FROM):
            expected = "FROM and a format, as in FROM parquet 'data/orders'"
            columns_too = "" if columns else "the stream's columns, as in (id BIGINT, ts TIMESTAMP), or "
            self.raise_error(f"expected {columns_too}{expected}")
        source = self._parse_connector()
        payload, payload_start = None, 0
        if self._match(TokenType.FORMAT):
            payload_start = self._curr.start if self._curr else 0
            payload = self._parse_connector()
        select = self._parse_ingest_select() if self._match(TokenType.ALIAS) else None
        if not self._match_text_seq("TIME"):
            self.raise_error("expected TIME and the event-time column, as in TIME ts")
        time = self._parse_name("the event-time column")
        lateness = self._parse_duration() if self._match_text_seq("LATENESS") else 0
        return CreateStream(name, columns, source, time, lateness, payload, payload_start, select)

    def _parse_create_table(self) -> CreateTable:
        name = self._parse_name("a table name")
        if not self._match(TokenType.L_PAREN):
            self.raise_error("expected the table's columns, as in (id BIGINT, name STRING)")
        columns = self._parse_columns()
        if not self._match(TokenType.FROM):
            self.raise_error("expected FROM and a format, as in FROM parquet 'data/customers'")
        source = self._parse_connector()
        refresh = None
        if self._match_text_seq("REFRESH"):
            if not self._match_text_seq("EVERY"):
                self.raise_error("expected EVERY, as in REFRESH EVERY 1 MINUTE")
            refresh = self._parse_duration()
        return CreateTable(name, columns, source, refresh)

    def _parse_columns(self) -> tuple[tuple[exp.Identifier, exp.DataType], ...]:
        columns = [self._parse_stream_column()]
        while self._match(TokenType.COMMA):
            columns.append(self._parse_stream_column())
        if not self._match(TokenType.R_PAREN):
            self.raise_error("expected , or ) after a column of the stream")
        return tuple(columns)

    def _parse_ingest_select(self) -> exp.Expr:
        """The SELECT up to the last TIME of the statement, which would else be read as an alias."""
        begin, end = self._index, self._tokens_size
        words = [i for i in range(begin, end) if self._tokens[i].text.upper() == "TIME"]
        last = next((i for i in reversed(words) if i + 1 < end), None)
        if last is None:
            self._advance(end - begin)
            self.raise_error("expected TIME and the event-time column behind the SELECT, as in TIME ts")
        inner = AnabranchParser(dialect=self.dialect, error_level=ErrorLevel.IMMEDIATE)
        nodes = inner.parse(self._tokens[begin:last], self.sql) if last > begin else []
        if len(nodes) != 1 or not isinstance(nodes[0], exp.Select):
            self.raise_error("expected a SELECT after AS, as in AS SELECT id, lower(name) AS name")
        self._advance(last - begin)
        return nodes[0]

    def _parse_create_query(self) -> CreateQuery:
        name = self._parse_name("a query name")
        if not self._match(TokenType.INTO):
            self.raise_error("expected INTO and a format, as in INTO parquet 'out/results'")
        named = self._curr
        sink = self._parse_connector()
        if near := get_close_matches(sink.format, _SINKS, n=1, cutoff=0.75):
            if near[0] != sink.format:
                self.raise_error(f"{sink.format} is not a known format, as in INTO {near[0]}", named)
            if sink.format == "parquet" and sink.path is None:
                self.raise_error("expected a directory behind parquet, as in INTO parquet 'out/results'")
        if not self._match(TokenType.ALIAS):
            self.raise_error("expected AS and a SELECT")
        start = self._curr
        select = self._parse_statement() if start else None
        if select is None:
            self.raise_error("expected a SELECT after AS")
        return CreateQuery(name, sink, select, self._find_sql(start, self._prev))

    def _parse_set_option(self) -> SetOption:
        start = self._curr.start if self._curr else 0
        key = self._parse_option_key()
        if not self._match(TokenType.EQ):
            self.raise_error("expected =, as in SET key = value")
        return SetOption(key, self._parse_option_value(), start)

    def _parse_stream_column(self) -> tuple[exp.Identifier, exp.DataType]:
        name = self._parse_name("a column name")
        # As a schema: otherwise VARCHAR(10) would be read as STRING.
        kind = self._parse_types(schema=True) if self._curr else None
        if not isinstance(kind, exp.DataType):
            self.raise_error(f"expected the type of column {name.name}, as in {name.name} BIGINT")
        if self._match_text_seq("COLLATE"):
            kind.set("collate", self._parse_name("a collation"))
        return name, kind

    def _parse_connector(self) -> Connector:
        if not self._is_word():
            self.raise_error("expected a format such as parquet, json, kafka or console")
        self._advance()
        name, path = self._prev.text.lower(), None
        if self._match(TokenType.STRING):
            path = self._prev.text
        options: list[tuple[str, str]] = []
        if self._match_text_seq("OPTIONS"):
            if not self._match(TokenType.L_PAREN):
                self.raise_error("expected (, as in OPTIONS (key = value)")
            while not self._match(TokenType.R_PAREN):
                if options and not self._match(TokenType.COMMA):
                    self.raise_error("expected , or ) after an option")
                options.append(self._parse_option())
        return Connector(name, path, tuple(options))

    def _parse_option(self) -> tuple[str, str]:
        key = self._parse_option_key()
        if not self._match(TokenType.EQ):
            self.raise_error("expected =, as in OPTIONS (key = value)")
        return key, self._parse_option_value()

    def _parse_option_key(self) -> str:
        if self._match(TokenType.STRING):
            return str(self._prev.text)
        parts = []
        while True:
            if not self._is_word():
                self.raise_error("expected an option name")
            parts.append(self._curr.text)
            self._advance()
            if not self._match(TokenType.DOT):
                return ".".join(parts)

    def _parse_option_value(self) -> str:
        if self._match(TokenType.STRING):
            return str(self._prev.text)
        if self._match_set((TokenType.TRUE, TokenType.FALSE)):
            return self._prev.text.lower()
        sign = "-" if self._match(TokenType.DASH) else ""
        if not self._match(TokenType.NUMBER):
            self.raise_error("expected a number, true, false, or text in quotes")
        return sign + self._prev.text

    def _parse_name(self, what: str) -> exp.Identifier:
        token = self._curr
        quoted = bool(token) and token.token_type == TokenType.IDENTIFIER
        if not quoted and not self._is_word():
            self.raise_error(f"expected {what}")
        self._advance()
        return exp.Identifier(this=token.text, quoted=quoted).update_positions(token)

    def _parse_duration(self) -> int:
        if not self._match(TokenType.NUMBER):
            self.raise_error(f"expected a whole number and a unit, {DURATION_HINT}")
        number = self._prev
        if not self._is_word():
            self.raise_error(f"expected a unit of time, {DURATION_HINT}")
        size = duration_us(number.text, self._curr.text)
        if size is None or size > MAX_WINDOW_US:
            self.raise_error(f"{number.text} {self._curr.text} is not a length of time, {DURATION_HINT}")
        self._advance()
        return size or 0

    def _parse_table_parts(  # type: ignore[override]
        self, schema: bool = False, is_db_reference: bool = False, wildcard: bool = False, fast: bool = False
    ) -> exp.Expression | None:
        table = super()._parse_table_parts(
            schema=schema, is_db_reference=is_db_reference, wildcard=wildcard, fast=fast
        )
        if not fast and isinstance(table, exp.Table) and self._match(TokenType.L_BRACKET):
            table.set("stream_window", self._parse_stream_window())
        return table

    def _parse_stream_window(self) -> exp.Expression:
        window = self.expression(StreamWindow(kind="NOW", size=0))
        if self._match_text_seq("RANGE", "UNBOUNDED"):
            window.set("kind", "UNBOUNDED")
        elif self._match_text_seq("RANGE"):
            window.set("kind", "RANGE")
            window.set("size", self._parse_duration())
        elif self._match_text_seq("ROWS"):
            rows = whole_number(self._prev.text) if self._match(TokenType.NUMBER) else None
            if rows is None:
                self.raise_error("expected a whole number of rows, as in [ROWS 100]")
            window.set("kind", "ROWS")
            window.set("size", rows)
        elif not self._match_text_seq("NOW"):
            self.raise_error("expected [RANGE n unit], [RANGE UNBOUNDED] or [NOW]")
        if not self._match(TokenType.R_BRACKET):
            self.raise_error("expected ] after the window")
        return window

    def _is_word(self) -> bool:
        return bool(self._curr) and (self._curr.text.isidentifier() or _is_dashed_word(self._curr.text))


class AnabranchDialect(Spark):
    """Spark SQL with stream windows and flow statements."""

    Parser = AnabranchParser
    SUPPORTS_FIXED_SIZE_ARRAYS = True  # CAST(x AS DOUBLE[3])


def parse_statements(source: SourceText) -> list[Statement]:
    """Read a flow file."""
    with located(source):
        tokens, parser = _prepare(source)
        return parser.parse_flow(tokens, source.text)


def parse_select(source: SourceText) -> exp.Expr:
    """Read exactly one SELECT."""
    with located(source):
        tokens, parser = _prepare(source)
        nodes = [
            node for node in parser.parse(tokens, source.text) if node and not isinstance(node, exp.Semicolon)
        ]
    if len(nodes) != 1:
        raise source.error_at(0, f"expected one SELECT, found {len(nodes)} statements", "write one SELECT")
    return nodes[0]


def _prepare(source: SourceText) -> tuple[list[Token], AnabranchParser]:
    if len(source.text) > MAX_TEXT:
        raise source.error_at(0, f"the text is longer than {MAX_TEXT:,} characters", "split it")
    dialect = AnabranchDialect()
    tokens = _with_window_functions(dialect.tokenize(source.text))
    _refuse_foreign_tokens(source, tokens)
    return tokens, AnabranchParser(dialect=dialect, error_level=ErrorLevel.IMMEDIATE)


def _with_window_functions(tokens: list[Token]) -> list[Token]:
    """Tokens in which `window` is a plain name, unless a name follows: that is a WINDOW clause."""
    names = (TokenType.VAR, TokenType.IDENTIFIER)
    return [
        Token(TokenType.VAR, token.text, token.line, token.col, token.start, token.end, token.comments)
        if token.token_type == TokenType.WINDOW and after.token_type not in names
        else token
        for token, after in pairwise((*tokens, *tokens[-1:]))
    ]


def _refuse_foreign_tokens(source: SourceText, tokens: list[Token]) -> None:
    # sqlglot folds `|> WHERE …` into the SELECT before it, so the tree would not show it.
    for token in tokens:
        if token.token_type == TokenType.PIPE_GT:
            raise source.error_at(
                token.start, "the pipe syntax |> is not supported", "write one plain SELECT"
            )
    for token, after in pairwise(tokens):
        # The parser stumbles over what follows, and the message would not say over what.
        if token.text.upper() == "USING" and after.token_type == TokenType.STRING:
            raise source.error_at(
                token.start,
                "TRANSFORM … USING is not supported: scripts are not run",
                "use the built-in functions of Spark",
            )


def _is_dashed_word(text: str) -> bool:
    return all(part.isidentifier() for part in text.split("-"))
