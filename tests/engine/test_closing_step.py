"""The closing step: a run that has read everything emits whatever the watermark has passed, once."""

from __future__ import annotations

from pathlib import Path

import pytest

from anabranch.engine.local_driver import LocalRun
from anabranch.engine.settings import Settings
from anabranch.engine.sinks.memory_sink import MemorySink
from anabranch.language.flow import bind_query
from tests.engine.test_end_of_input import JOINED, OTHER, QUERY, STREAM, _FailingOnce, counts, rows, start


def waiting(run: LocalRun) -> int:
    assert run.loop.manifest is not None
    return run.loop.manifest.queries[0].waiting


def test_what_the_last_batch_made_final_is_emitted(checkpoint: Path) -> None:
    run = start(checkpoint)
    run.batch(rows(10, 11, 12, 14, 19))  # watermark 14
    assert (counts(run), waiting(run)) == ({}, 5)
    (step,) = run.drain()
    assert counts(run) == {10: 1, 11: 2, 12: 3}
    assert (step.manifest.key, waiting(run)) == ((0, 1), 2)
    assert run.drain() == []


def test_a_step_is_not_taken_where_the_watermark_has_passed_nothing(checkpoint: Path) -> None:
    run = start(checkpoint)
    assert run.drain() == []
    run.batch(rows(10, 15))  # watermark 10: the row at 10 may still get merge_group
    assert run.drain() == []
    run.batch(rows(16, 20))
    assert [len(run.drain()), len(run.drain())] == [1, 0]
    run.batch(rows())
    assert run.drain() == []


def test_results_are_the_same_as_if_the_run_had_gone_on(checkpoint: Path) -> None:
    sinks = {"q": MemorySink()}
    for times in ((10, 12), (17, 18), (14, 22, 30)):
        run = start(checkpoint, sinks)
        run.batch(rows(*times))
        run.drain()
        run.close()
    run = start(checkpoint, sinks)
    run.end_of_input()
    assert counts(run) == {10: 1, 12: 2, 14: 2, 17: 2, 18: 2, 22: 1, 30: 1}
    assert waiting(run) == 0


def test_a_crash_between_commit_and_sink_loses_nothing_and_doubles_nothing(checkpoint: Path) -> None:
    sinks = {"q": _FailingOnce()}
    run = start(checkpoint, sinks)
    run.batch(rows(10, 12, 30))
    with pytest.raises(OSError, match="gone"):
        run.drain()
    run.close()
    run = start(checkpoint, sinks)
    assert run.drain() == []
    assert counts(run) == {10: 1, 12: 2}


def test_groups_of_a_join_wait_for_the_slower_stream(checkpoint: Path) -> None:
    run = LocalRun(checkpoint, [STREAM, OTHER], [JOINED])
    run.batch({**rows(10, 20, 40), "r": rows(18)["s"]})
    assert (run.drain(), waiting(run)) == ([], 2)
    run.batch({**rows(), "r": rows(24)["s"]})  # watermarks 35 and 19
    run.drain()
    assert counts(run) == {18: 1}
    run.end_of_input()
    assert waiting(run) == 0


@pytest.mark.parametrize("window", ["[ROWS 2]", "[RANGE UNBOUNDED]", "[NOW]"])
def test_rows_wait_whatever_the_window(checkpoint: Path, window: str) -> None:
    text = f"SELECT k, COUNT(*) AS n, MAX(ts) AS t FROM s {window} GROUP BY k"
    query = bind_query("q", text, {"s": STREAM})
    run = LocalRun(checkpoint, [STREAM], [query], settings=Settings(sites=7, slots=2))
    for times in ((10, 11), (12, 13, 14), (30,)):
        run.batch(rows(*times))
    assert waiting(run) == 6
    run.drain()
    assert (len(counts(run)), waiting(run)) == (5, 1)


def test_a_filter_keeps_rows_from_waiting(checkpoint: Path) -> None:
    query = bind_query("q", "SELECT COUNT(*) AS n, MAX(ts) AS t FROM s [NOW] WHERE k > 1", {"s": STREAM})
    run = start(checkpoint, query=query)
    run.batch(rows(10, 12, 30))
    assert (run.drain(), waiting(run)) == ([], 0)


def test_an_aggregate_shares_nothing_with_the_query_that_has_no_window(checkpoint: Path) -> None:
    plain = bind_query("plain", "SELECT k FROM s", {"s": STREAM})
    run = LocalRun(checkpoint, [STREAM], [plain, QUERY])
    run.batch(rows(10, 12, 30))
    run.drain()
    assert run.results("plain").num_rows == 3
    assert {q.name: q.waiting for q in run.loop.manifest.queries} == {"plain": 0, "q": 1}  # type: ignore[union-attr]
