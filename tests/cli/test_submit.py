"""Queries from the command line: submitted to, listed and dropped from a session that runs without Spark."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from typer.testing import CliRunner

from anabranch.cli.app import app
from anabranch.engine.json_log import JsonLog
from anabranch.engine.local_driver import LocalRun
from anabranch.state import PosixStorage
from tests.engine.directed_runs import STREAMS, TWO_SITES, steady_batches
from tests.engine.test_come_and_go import BASE, TEXTS

BATCHES = steady_batches(3)


@pytest.fixture
def session(tmp_path: Path) -> Iterator[LocalRun]:
    log = JsonLog(PosixStorage(tmp_path / "ck"))
    run = LocalRun(tmp_path / "ck", STREAMS, [BASE], settings=TWO_SITES, listeners=[log])
    run.batch(BATCHES[0])
    yield run
    run.close()


@contextmanager
def running(run: LocalRun) -> Iterator[None]:
    """Batches follow each other until the command is through."""
    over = threading.Event()

    def work() -> None:
        while not over.is_set():
            if run.loop.changes_wait:
                run.batch(BATCHES[1])

    thread = threading.Thread(target=work)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def call(*arguments: object) -> tuple[int, str]:
    result = CliRunner().invoke(app, [str(a) for a in arguments])
    return result.exit_code, result.output


def test_a_query_is_submitted_listed_replaced_and_dropped(session: LocalRun, tmp_path: Path) -> None:
    flow = tmp_path / "more.sql"
    flow.write_text(f"CREATE QUERY more INTO parquet '{tmp_path / 'out'}' AS {TEXTS['pairs']};")
    with running(session):
        assert call("submit", tmp_path / "ck", flow) == (0, "more runs\n")
        code, output = call("submit", tmp_path / "ck", flow)
        assert code == 1
        assert "a query 'more' already" in output
        assert call("submit", tmp_path / "ck", flow, "--replace") == (0, "more goes on with its new text\n")
    code, output = call("queries", tmp_path / "ck", "--json")
    told = {q["query"]: q for q in json.loads(output)}
    assert told["more"]["text"] == TEXTS["pairs"]
    assert told["base"]["results"] > 0
    assert told["base"]["state_bytes"] > 0
    with running(session):
        assert call("drop", tmp_path / "ck", "more") == (0, "more has ended\n")
        code, output = call("drop", tmp_path / "ck", "nobody")
        assert code == 1
        assert "there is no query 'nobody'" in output
    session.batch(BATCHES[2])
    assert "more" not in call("queries", tmp_path / "ck")[1]


def test_without_a_session_letters_wait(session: LocalRun, tmp_path: Path) -> None:
    code, output = call("drop", tmp_path / "ck", "base", "--timeout", "0")
    assert (code, "waits in the checkpoint" in output) == (0, True)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("SET sites = 3;", "more than CREATE QUERY"),
        ("CREATE QUERY q INTO console AS SELECT x FROM a;", "unknown column"),
        ("CREATE QUERY q INTO console AS SELECT id FROM z;", "z"),
        ("", "has no CREATE QUERY"),
    ],
)
def test_a_file_that_cannot_be_submitted_is_refused(
    session: LocalRun, tmp_path: Path, text: str, told: str
) -> None:
    (tmp_path / "f.sql").write_text(text)
    code, output = call("submit", tmp_path / "ck", tmp_path / "f.sql")
    assert (code, told in output) == (2, True), output
