"""The end of input: what is not final waits for it, and it happens exactly once."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from anabranch.engine.local_driver import LocalRun
from anabranch.engine.settings import Settings
from anabranch.engine.sinks.memory_sink import MemorySink
from anabranch.engine.sinks.sink import ResultBatch
from anabranch.language.flow import bind_query
from anabranch.plan.logical import Column, Query, Stream
from anabranch.state.paths import DEAD_LETTERS
from tests.support.storages import stored_rows

STREAM = Stream("s", (Column("k", "bigint"), Column("ts", "timestamp")), "ts", lateness_us=5)
QUERY = bind_query(
    "q", "SELECT k, COUNT(*) AS n, MAX(ts) AS t FROM s [RANGE 3 MICROSECONDS] GROUP BY k", {"s": STREAM}
)


def rows(*times: int) -> dict[str, pa.Table]:
    """Rows of one key."""
    ts = pa.array(times, pa.int64()).cast(pa.timestamp("us"))
    return {"s": pa.table({"k": pa.array([1] * len(times), pa.int64()), "ts": ts})}


def counts(run: LocalRun) -> dict[int, int]:
    """Result by event time."""
    table = run.results("q")
    return dict(
        zip(table.column("t").cast(pa.int64()).to_pylist(), table.column("n").to_pylist(), strict=True)
    )


def start(root: Path, sinks: Any = None, query: Query = QUERY) -> LocalRun:
    settings = Settings(sites=1, slots=1, sink_failures="stop")
    return LocalRun(root, [STREAM], [query], sinks=sinks, settings=settings)


def test_a_row_is_a_result_once_the_committed_watermark_has_passed_it(checkpoint: Path) -> None:
    run = start(checkpoint)
    run.batch(rows(10, 12))  # watermark 7
    run.batch(rows(17, 18))  # watermark 13; this batch has seen only 7
    assert counts(run) == {}
    run.batch(rows(20))
    assert counts(run) == {10: 1, 12: 2}


def test_what_is_not_final_waits_for_the_next_run(checkpoint: Path) -> None:
    sinks = {"q": MemorySink()}
    run = start(checkpoint, sinks)
    run.batch(rows(10, 12))
    run.close()
    run = start(checkpoint, sinks)
    run.batch(rows(11))
    run.end_of_input()
    assert counts(run) == {10: 1, 11: 2, 12: 3}


def test_the_end_of_input_is_a_further_step_of_the_last_batch(checkpoint: Path) -> None:
    run = start(checkpoint)
    run.batch(rows(10))
    (step,) = run.end_of_input()
    assert step.manifest.key == (0, 1)
    assert run.end_of_input() == []


def test_there_is_nothing_to_end_before_the_first_batch_or_without_aggregates(checkpoint: Path) -> None:
    plain = bind_query("q", "SELECT k FROM s", {"s": STREAM})
    run = start(checkpoint, query=plain)
    assert run.end_of_input() == []
    run.batch(rows(10))
    assert run.end_of_input() == []


def test_a_row_at_or_before_the_declared_end_is_late_and_kept_apart(checkpoint: Path) -> None:
    run = start(checkpoint)
    run.batch(rows(10, 12))
    run.end_of_input()
    run.batch(rows(12, 13))
    run.end_of_input()
    assert counts(run) == {10: 1, 12: 2, 13: 3}
    assert run.loop.manifest is not None
    assert run.loop.manifest.streams[0].late == 1
    assert [row["reason"] for row in stored_rows(run.storage, DEAD_LETTERS)] == ["late"]


class _FailingOnce(MemorySink):
    """A sink that dies at its first result, after the step has committed."""

    failed = False

    def publish(self, results: ResultBatch) -> None:
        if results.files and not self.failed:
            self.failed = True
            raise OSError("the sink is gone")
        super().publish(results)


def test_a_crash_between_commit_and_sink_loses_nothing_and_doubles_nothing(checkpoint: Path) -> None:
    sinks = {"q": _FailingOnce()}
    run = start(checkpoint, sinks)
    run.batch(rows(10, 12))
    with pytest.raises(OSError, match="gone"):
        run.end_of_input()
    run.close()
    run = start(checkpoint, sinks)
    assert counts(run) == {10: 1, 12: 2}
    assert run.end_of_input() == []


def test_an_aggregate_shows_what_it_keeps_and_where(checkpoint: Path) -> None:
    from anabranch.queries.catalog import explain_query
    from anabranch.queries.reconcile import reconcile

    text = explain_query(reconcile([STREAM], [QUERY], None), "q", sites=4)
    assert "group key 0: `k` (bigint)" in text
    assert "routing: hash of all group keys, partitioned over 4 sites" in text
    assert "aggregate count(*), max(`ts`): one result per row" in text
    everything = bind_query("all", "SELECT COUNT(*) AS n FROM s [ROWS 9]", {"s": STREAM})
    text = explain_query(reconcile([STREAM], [everything], None), "all", sites=4)
    assert "s: s [ROWS 9], kept in state" in text
    assert "one site, because without GROUP BY all rows are one group" in text


OTHER = Stream("r", STREAM.columns, "ts", lateness_us=5)
JOINED = bind_query(
    "q",
    "SELECT a.k, COUNT(*) AS n, greatest(MAX(a.ts), MAX(b.ts)) AS t "
    "FROM s [RANGE 30 MICROSECONDS] a, r [RANGE 3 MICROSECONDS] b WHERE a.k = b.k GROUP BY a.k",
    {"s": STREAM, "r": OTHER},
)


def test_streams_whose_join_is_grouped_end_together(checkpoint: Path) -> None:
    run = LocalRun(checkpoint, [STREAM, OTHER], [JOINED])
    run.batch({**rows(10, 20), "r": rows(18)["s"]})
    run.end_of_input()
    assert counts(run) == {18: 1, 20: 2}
    # Not late for its own stream, but it could change what was final at 20.
    run.batch({**rows(), "r": rows(19, 21)["s"]})
    run.end_of_input()
    assert counts(run) == {18: 1, 20: 2, 21: 4}
    assert run.loop.manifest is not None
    assert [s.late for s in run.loop.manifest.streams] == [0, 1]
    assert run.end_of_input() == []


def test_a_stream_without_a_row_ends_with_the_others(checkpoint: Path) -> None:
    run = LocalRun(checkpoint, [STREAM, OTHER], [JOINED])
    run.batch({**rows(10), "r": rows()["s"]})
    assert len(run.end_of_input()) == 1
    assert run.end_of_input() == []
    assert counts(run) == {}


def test_a_grouped_join_shows_what_it_keeps_and_where(checkpoint: Path) -> None:
    from anabranch.queries.catalog import explain_query
    from anabranch.queries.reconcile import reconcile

    text = explain_query(reconcile([STREAM, OTHER], [JOINED], None), "q", sites=4)
    assert "routing: hash of key 0, partitioned over 4 sites" in text
    assert "one result per result of the join" in text
    assert "kept in state results:q#" in text
    by_time = bind_query(
        "q",
        "SELECT a.ts, COUNT(*) AS n FROM s [NOW] a, r [NOW] b WHERE a.k = b.k GROUP BY a.ts",
        {"s": STREAM, "r": OTHER},
    )
    text = explain_query(reconcile([STREAM, OTHER], [by_time], None), "q", sites=4)
    assert "routing: hash of key 0, partitioned over 4 sites" in text
    assert "routing of groups: hash of all group keys, partitioned over 4 sites" in text


def test_a_stream_that_is_new_and_has_no_row_does_not_stop_the_end(checkpoint: Path) -> None:
    run = start(checkpoint)
    run.batch(rows(10))
    run.close()
    other = replace(STREAM, name="t")
    text = "SELECT s.k, COUNT(*) AS n FROM s [NOW], t [NOW] WHERE s.k = t.k GROUP BY s.k"
    new = bind_query("new", text, {"s": STREAM, "t": other})
    run = LocalRun(checkpoint, [STREAM, other], [QUERY, new])
    run.end_of_input()
    assert counts(run) == {10: 1}
    assert not run.results("new").num_rows
