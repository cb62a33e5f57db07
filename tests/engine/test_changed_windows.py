"""A windowed query that comes back changed finds in its state what it kept, or is refused."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from anabranch.engine.local_driver import LocalRun
from anabranch.errors import StateError
from anabranch.language.flow import bind_query
from anabranch.plan.logical import Column, Query, Stream

STREAM = Stream("s", (Column("k", "bigint"), Column("x", "int"), Column("ts", "timestamp")), "ts")
TUMBLING = "window(ts, '10 microseconds')"


def query(selected: str, window: str = TUMBLING, behind: str = "") -> Query:
    return bind_query("q", f"SELECT {selected} FROM s GROUP BY k, {window}{behind}", {"s": STREAM})


def rows(*times: int) -> dict[str, pa.Table]:
    return {
        "s": pa.table(
            {
                "k": pa.array([1] * len(times), pa.int64()),
                "x": pa.array(times, pa.int32()),
                "ts": pa.array(times, pa.int64()).cast(pa.timestamp("us")),
            }
        )
    }


def begun(root: Path) -> None:
    run = LocalRun(root, [STREAM], [query("k, SUM(x) AS s, MAX(x) AS hi, first(x) AS f")])
    run.batch(rows(11, 12))
    run.close()


def test_less_in_another_order_is_found_in_what_was_kept(checkpoint: Path) -> None:
    begun(checkpoint)
    run = LocalRun(checkpoint, [STREAM], [query("window.end, first(x) AS f, SUM(x) AS s")])
    run.batch(rows(13, 25))
    run.batch(rows(31))
    found = run.results("q").to_pylist()
    assert [(r["f"], r["s"]) for r in found] == [(11, 36)]


@pytest.mark.parametrize(
    ("selected", "window", "behind", "message"),
    [
        ("MIN(x) AS lo", TUMBLING, "", r"now selects min\(`x`\), which its state did not keep"),
        ("COUNT(*) AS n", TUMBLING, "", "did not keep"),
        ("last(x) AS l", TUMBLING, "", "did not keep"),
        ("SUM(x) AS s, median(x) AS m", TUMBLING, "", "other streams, windows or predicates"),
        ("SUM(x) AS s", "window(ts, '20 microseconds')", "", "other streams, windows or predicates"),
        ("SUM(x) AS s", "session_window(ts, '10 microseconds')", "", "other streams, windows or predicates"),
        ("SUM(x) AS s", TUMBLING, " HAVING SUM(x) > 1", "other streams, windows or predicates"),
    ],
)
def test_what_the_state_does_not_hold_is_refused(
    checkpoint: Path, selected: str, window: str, behind: str, message: str
) -> None:
    begun(checkpoint)
    with pytest.raises(StateError, match=message):
        LocalRun(checkpoint, [STREAM], [query(selected, window, behind)])


def test_a_window_that_ended_with_the_input_takes_no_more_rows(checkpoint: Path) -> None:
    run = LocalRun(checkpoint, [STREAM], [query("window.end, COUNT(*) AS n")])
    run.batch(rows(11, 12))
    run.end_of_input()
    summary = run.batch(rows(13, 19, 20))
    run.end_of_input()
    assert [s.late for s in summary.manifest.streams] == [2]
    assert sorted(r["n"] for r in run.results("q").to_pylist()) == [1, 2]
