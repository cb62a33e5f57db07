"""A text whose pattern is known is read as if it were parsed."""

from __future__ import annotations

from collections.abc import Callable

from hypothesis import example, given
from hypothesis import strategies as st
from sqlglot import exp

from anabranch.errors import QueryError
from anabranch.language.binding.binder import bind_select, plan_query
from anabranch.language.flow import bind_query
from anabranch.language.syntax.dialect import parse_select
from anabranch.language.syntax.patterns import MOST_PATTERNS, Patterns
from anabranch.language.syntax.source_text import SourceText
from anabranch.plan.logical import Query
from tests.language.test_token_soup import STREAMS, WORDS

CONSTANTS = (
    *("0", "7", "007", "2147483648", "9223372036854775808", "1.5", "0.50", ".5", "5.", "1e5", "1_0", "９"),
    *("9L", "1.5D", "2Y", "1BD", "''", "'x'", "'it''s'", "'--'", "'/*'", "'1'", "'10 minutes'", "'\\n'"),
    *("'2020-01-01'", "'2020-01-01 00:00:00+01'", "x'ff'", "r'a'", '"q"', "`k`", "-3", "NULL"),
)
constants = st.sampled_from(CONSTANTS)
SELECTS = (
    "SELECT k FROM s WHERE k = {} AND d < {}",
    "SELECT k + {} AS n, {} AS c FROM s [RANGE {} SECONDS] WHERE NOT k <> -{}",
    "SELECT k FROM s WHERE k IN ({}, {}) OR t LIKE {} OR t = {} ",
    "SELECT k FROM s WHERE d BETWEEN {} AND {} AND ts > TIMESTAMP {} + INTERVAL {} MINUTES",
    "SELECT CASE WHEN k = {} THEN {} ELSE {} END AS c FROM s WHERE CAST(k AS DECIMAL({},{})) > {}",
    "SELECT substring(t, {}, {}) AS c FROM s WHERE t = concat({}, {}) AND CAST({} AS DATE) < ts",
    "SELECT k, COUNT(*) AS n FROM s [RANGE {} MINUTES] GROUP BY k HAVING COUNT(*) > {}",
    "SELECT k, COUNT(*) AS n FROM s GROUP BY k, window(ts, {}, {})",
    "SELECT a.k FROM s [RANGE {} DAYS] a, s [RANGE {} HOURS] b WHERE a.k = b.k AND a.d - b.d < {}",
    "SELECT k FROM s [ROWS {}] WHERE `k` = {} AND k{} = {}",
)


def parsed(text: str) -> exp.Expr:
    return parse_select(SourceText(text))


def read(patterns: Patterns, text: str) -> str:
    try:
        return patterns.read(text, repr)
    except QueryError as error:
        return f"{error} {error.line} {error.column}"


@given(st.data(), st.sampled_from(SELECTS))
def test_the_tree_of_a_known_pattern_is_that_of_the_parser(data: st.DataObject, select: str) -> None:
    patterns = Patterns(parsed)
    for _ in range(3):
        text = select.format(*(data.draw(constants) for _ in range(select.count("{}"))))
        assert read(patterns, text) == read(Patterns(parsed), text), text


@given(st.data(), st.lists(st.sampled_from(WORDS), min_size=1, max_size=14), st.sampled_from(["", " "]))
@example(None, ["INTERVAL", "'x'", "SECOND"], " ")
def test_and_in_a_soup_of_tokens(data: st.DataObject | None, words: list[str], glue: str) -> None:
    patterns = Patterns(parsed)
    read(patterns, f"SELECT {glue.join(words)} FROM s")
    for constant in CONSTANTS if data is None else data.draw(st.lists(constants, min_size=1, max_size=4)):
        changed = [constant if word[0].isdigit() or word[0] in "'." else word for word in words]
        text = f"SELECT {glue.join(changed)} FROM s"
        assert read(patterns, text) == read(Patterns(parsed), text), text


@given(st.data(), st.sampled_from(SELECTS))
def test_a_query_is_bound_the_same_whatever_was_bound_before(data: st.DataObject, select: str) -> None:
    for _ in range(2):
        text = select.format(*(data.draw(constants) for _ in range(select.count("{}"))))
        assert told(lambda text=text: bind_query("q", text, STREAMS)) == told(lambda text=text: alone(text))


def alone(text: str) -> Query:
    """A query bound without patterns."""
    source = SourceText(text)
    return plan_query("q", bind_select(parse_select(source), STREAMS, source), sink=None, text=text)


def told(bind: Callable[[], Query]) -> object:
    try:
        return bind()
    except QueryError as error:
        return str(error), error.line, error.column, error.suggestion


def test_a_pattern_is_parsed_once() -> None:
    told: list[str] = []

    def counted(text: str) -> exp.Expr:
        told.append(text)
        return parsed(text)

    patterns = Patterns(counted)
    for number in range(50):
        text = f"SELECT k FROM s [RANGE {number + 1} SECONDS] WHERE k = {number} AND t = 'n{number}'"
        assert patterns.read(text, repr) == repr(parsed(text))
    assert len(told) == 1


def test_patterns_are_forgotten_when_there_are_very_many() -> None:
    patterns = Patterns(parsed)
    for number in range(MOST_PATTERNS + 10):
        patterns.read(f"SELECT k AS k{number} FROM s", repr)
    assert len(patterns._known) == MOST_PATTERNS
