"""What a session accepts, refuses and forgets, without Spark."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import anabranch as ab
from anabranch.engine.sinks.console_sink import ConsoleSink
from anabranch.spark.reading.declared import as_sink, lateness_us

STREAM = "CREATE STREAM s (k BIGINT, ts TIMESTAMP) FROM json 'in' TIME ts;\n"
FLOW = STREAM + "CREATE QUERY a INTO console AS SELECT k FROM s;\n"
NO_SPARK: Any = SimpleNamespace(
    sparkContext=SimpleNamespace(defaultParallelism=2), conf=SimpleNamespace(getAll={})
)


@pytest.fixture
def session(tmp_path: Path) -> ab.Session:
    return ab.Session(NO_SPARK, tmp_path / "checkpoint")


def test_a_flow_file_is_loaded_by_its_path(
    session: ab.Session, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "flow.sql").write_text(FLOW)
    session.load(tmp_path / "flow.sql")
    session.explain()
    assert "query a" in capsys.readouterr().out
    assert repr(session).endswith("streams: s; queries: a>")
    with pytest.raises(ab.ConfigError, match="no flow file"):
        session.load("missing.sql")


def test_a_flow_that_is_refused_leaves_nothing(session: ab.Session) -> None:
    session.load(ab.parse_flow(FLOW))
    before = repr(session)
    other = FLOW.replace("STREAM s ", "STREAM t ").replace("FROM s", "FROM t")
    with pytest.raises(ab.ConfigError, match="there is a query 'a' already"):
        session.load(ab.parse_flow(other))
    bad_sink = other.replace("QUERY a INTO console", "QUERY b INTO console 'x'")
    with pytest.raises(ab.ConfigError, match="console takes no path"):
        session.load(ab.parse_flow(bad_sink))
    assert repr(session) == before


@pytest.mark.parametrize("sink", [None, 7, "out/results", object()])
def test_what_is_no_sink_is_refused_with_a_sentence_and_the_name_stays_free(
    session: ab.Session, sink: Any
) -> None:
    session.load(ab.parse_flow(STREAM))
    with pytest.raises(ab.ConfigError, match=r"query 'q': .*ab\.parquet\("):
        session.query("q", "SELECT k FROM s", sink)
    session.query("q", "SELECT k FROM s", "console")


def test_the_word_console_is_a_sink() -> None:
    assert isinstance(as_sink(NO_SPARK, "q", "console"), ConsoleSink)


def test_queries_are_replaced_and_dropped_and_streams_that_nobody_reads(session: ab.Session) -> None:
    session.load(ab.parse_flow(FLOW))
    with pytest.raises(ab.ConfigError, match="already: choose another name, or pass replace=True"):
        session.query("a", "SELECT k FROM s", "console")
    session.query("a", "SELECT k + 1 AS k FROM s", "console", replace=True)
    with pytest.raises(ab.ConfigError, match="read by query 'a'"):
        session.drop("s")
    session.drop("a")
    session.drop("s")
    with pytest.raises(ab.ConfigError, match="choose from none"):
        session.drop("s")
    session.load(ab.parse_flow(FLOW))


@pytest.mark.parametrize("lateness", ["soon", "1 month", -5, 5, timedelta(seconds=-1)])
def test_a_lateness_that_is_none_is_refused(lateness: Any) -> None:
    with pytest.raises(ab.ConfigError, match="no length of time"):
        lateness_us(lateness)


def test_a_lateness_may_be_a_timedelta() -> None:
    assert lateness_us(timedelta(minutes=1, microseconds=1)) == 60_000_001


def test_explain_of_a_session_without_queries_says_so(
    session: ab.Session, capsys: pytest.CaptureFixture[str]
) -> None:
    session.explain()
    assert capsys.readouterr().out == "the session has no query\n"
