"""A query over its quota is ended for good, says how to start again, and is told of at every start."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from anabranch.engine.local_driver import LocalRun
from anabranch.engine.settings import Settings
from anabranch.spark.run_driver import RunDriver
from tests.engine.nasty_runs import bind, rows, stream

A, B = stream("a"), stream("b")
JOIN = "SELECT a.id AS a, b.id AS b FROM a [RANGE 9 MICROSECONDS], b [RANGE 9 MICROSECONDS] WHERE a.k = b.k"
GROUPING = "SELECT a.k, COUNT(*) AS n FROM a [NOW] GROUP BY a.k"
NARROWER = {JOIN: f"{JOIN} AND a.id < 2", GROUPING: GROUPING.replace("GROUP", "WHERE a.id < 2 GROUP")}
BOTH = pytest.mark.parametrize("text", [JOIN, GROUPING], ids=["join", "grouping"])
LARGE = 1_000_000
MESSAGE = re.compile(r"query 'big' .* was ended: start it under a new name, .* a larger quota_pairs")


@contextmanager
def _session(root: Path, *, quota: int = 30, **texts: str) -> Iterator[LocalRun]:
    settings = Settings(sites=1, slots=1, quota_pairs=quota)
    session = LocalRun(root, (A, B), bind((A, B), small="SELECT id FROM a", **texts), settings=settings)
    yield session
    session.close()


def _burst(session: LocalRun, start: int) -> None:
    """Forty rows of one key on each side, and one that makes them final."""
    session.batch({name: rows(*[(7, start + i) for i in range(40)]) for name in "ab"})
    session.batch({name: rows((7, start + 40)) for name in "ab"})


def _failures(run: RunDriver) -> list[str]:
    return [event.message for event in run.record.events if event.kind == "query_failed"]


@BOTH
def test_a_query_that_was_ended_stays_so_and_the_start_says_it(tmp_path: Path, text: str) -> None:
    with _session(tmp_path, big=text) as session:
        _burst(session, 0)
    with _session(tmp_path, big=text, quota=LARGE) as session:
        (told,) = _failures(RunDriver(session.loop, session.fence))
        assert told.startswith("ended in an earlier session")
        assert MESSAGE.search(told)
        _burst(session, 100)
        assert session.results("small").num_rows == 41
        assert not session.results("big").num_rows


@BOTH
def test_under_a_new_name_and_a_larger_quota_it_starts_again(tmp_path: Path, text: str) -> None:
    with _session(tmp_path, big=text) as session:
        _burst(session, 0)
    with _session(tmp_path, larger=text, quota=LARGE) as session:
        assert not _failures(RunDriver(session.loop, session.fence))
        _burst(session, 100)
        assert not session.loop.failures
        assert session.results("larger").num_rows > 30


@BOTH
def test_under_a_new_name_and_narrower_it_starts_again(tmp_path: Path, text: str) -> None:
    with _session(tmp_path, big=text) as session:
        _burst(session, 0)
    with _session(tmp_path, narrow=NARROWER[text]) as session:
        _burst(session, 100)
        assert not session.loop.failures
        assert session.results("narrow").num_rows


def test_a_running_session_tells_it_once(tmp_path: Path) -> None:
    with _session(tmp_path, big=JOIN) as session:
        session.batch({name: rows((7, 0), (7, 0), (7, 0), (7, 0)) for name in "ab"})  # 16 pairs
        run = RunDriver(session.loop, session.fence)
        for number in (1, 2):  # the same rows again: 4 * 8 + 4 * 4 pairs
            run.process(number, offsets="", source_id="local")
        (told,) = _failures(run)
        assert MESSAGE.match(told)


def test_a_change_of_plans_does_not_end_a_query_however_much_it_computes_anew(tmp_path: Path) -> None:
    streams = tuple(stream(name) for name in "abc")
    text = (
        "SELECT a.id AS a FROM a [RANGE 1 SECOND], b [RANGE 1 SECOND], c [RANGE 1 SECOND] "
        "WHERE a.k = b.k AND b.k = c.k"
    )
    settings = Settings(sites=1, slots=1, quota_pairs=300, migration="off")
    session = LocalRun(tmp_path, streams, bind(streams, q=text), settings=settings)
    for batch in range(30):  # b meets c some 900 times in all, at most 60 times in a batch, and a nobody
        row = rows((7, batch), first=batch)
        session.batch({"a": rows((1, batch)), "b": row, "c": row})
    session.loop.migrate("q", "((b c) a)")
    for batch in range(30, 33):
        session.batch({name: rows((7, batch), first=batch) for name in "bc"} | {"a": rows()})
    assert not session.loop.failures
    assert sum(b.rows for b in session.loop.manifest.blocks if "b" in b.state) > 900  # type: ignore[union-attr]
    session.close()
