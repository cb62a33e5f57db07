"""Hints for functions there are not: useful, and true."""

from __future__ import annotations

import re

import pytest

from anabranch.cli.docs import page
from anabranch.errors import QueryError
from anabranch.language.expressions.advice import ADVICE, advice_for
from anabranch.language.expressions.aggregates import AGGREGATES
from anabranch.language.expressions.functions import FUNCTIONS
from anabranch.language.flow import bind_query
from anabranch.language.ingest import built_ins
from anabranch.plan.logical import Column, Stream

COLUMNS = (Column("x", "double"), Column("n", "bigint"), Column("t", "string"), Column("ts", "timestamp"))
STREAMS = {name: Stream(name, COLUMNS, "ts", 0) for name in "ab"}
NO_FUNCTIONS = {"window", "session_window", "array", "l2_distance", "cast", "stream", "case"}

SUGGESTED = (
    "CAST(ts AS DATE)",
    "timestamp_seconds(n)",
    "unix_seconds(ts) + 86400",
    "mod(mod(n, 7) + 7, 7)",
    "CASE WHEN x > 0 THEN 1 WHEN x < 0 THEN -1 ELSE 0 END",
    "CASE WHEN x IS NOT NULL THEN n ELSE 0 END",
    "hour(ts)",
)
SUGGESTED_AGGREGATES = (
    "count(CASE WHEN x > 1 THEN 1 END)",
    "sum(CASE WHEN x > 1 THEN x ELSE 0 END)",
    "max(CASE WHEN x > 1 THEN 1 ELSE 0 END) = 1",
    "max_by(x, ts)",
    "first(x)",
)


def test_a_hash_is_not_taken_for_another_short_name() -> None:
    with pytest.raises(QueryError) as refused:
        bind_query("q", "SELECT xxhash64(t) AS h FROM a", STREAMS)
    assert "did you mean" not in str(refused.value)
    assert "no hash is needed" in str(refused.value)


@pytest.mark.parametrize(
    ("wrong", "right"), [("substrng", "substring"), ("lenght", "length"), ("coalese", "coalesce")]
)
def test_a_misspelt_name_is_recognised(wrong: str, right: str) -> None:
    assert f"did you mean {right}" in advice_for(wrong, FUNCTIONS)


@pytest.mark.parametrize("name", ["lag", "now", "uuid", "rank", "pi", "xml", "udf"])
def test_other_short_names_are_not_suggested(name: str) -> None:
    assert "did you mean" not in advice_for(name, FUNCTIONS)


def test_advice_is_for_functions_that_there_are_not_and_names_only_those_that_there_are() -> None:
    assert not ADVICE.keys() & FUNCTIONS.keys()
    assert len(ADVICE | built_ins.REFUSED) >= 40
    for name, advice in ADVICE.items():
        called = {word.lower() for word in re.findall(r"\b([a-z_0-9]+)\(", advice)}
        assert called <= {*FUNCTIONS, *AGGREGATES, *NO_FUNCTIONS}, (name, called)


@pytest.mark.parametrize("expression", SUGGESTED)
def test_what_is_suggested_can_be_written(expression: str) -> None:
    bind_query("q", f"SELECT {expression} AS v FROM a", STREAMS)


@pytest.mark.parametrize("expression", SUGGESTED_AGGREGATES)
def test_aggregates_that_are_suggested_can_be_written(expression: str) -> None:
    bind_query("q", f"SELECT n, {expression} AS v FROM a GROUP BY n, window(ts, '5 minutes')", STREAMS)


def test_the_distance_that_is_suggested_can_be_written() -> None:
    near = "l2_distance(array(a.x, a.n), array(b.x, b.n)) < 5"
    bind_query("q", f"SELECT a.n FROM a [RANGE 1 MINUTE], b [RANGE 1 MINUTE] WHERE {near}", STREAMS)


@pytest.mark.parametrize(
    "text", ["SELECT substring(t) AS s FROM a", "SELECT CAST(x AS BINARY) AS s FROM a", "SELECT FROM"]
)
def test_pages_that_hints_name_can_be_shown_after_an_installation(text: str) -> None:
    with pytest.raises(QueryError) as refused:
        bind_query("q", text, STREAMS)
    for name in re.findall(r"anabranch docs (\w+)", str(refused.value)):
        assert page(name).startswith("# ")
    assert "docs/" not in str(refused.value)
