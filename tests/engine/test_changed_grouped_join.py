"""A grouped join that comes back with another SELECT list finds in its state what it kept, or is refused."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from anabranch.engine.local_driver import LocalRun
from anabranch.errors import StateError
from anabranch.language.flow import bind_query
from anabranch.plan.logical import Column, Query, Stream

COLUMNS = (Column("k", "bigint"), Column("x", "int"), Column("ts", "timestamp"))
STREAMS = {name: Stream(name, COLUMNS, "ts") for name in "ab"}
JOIN = "FROM a [RANGE 9 MICROSECONDS], b [RANGE 9 MICROSECONDS] WHERE a.k = b.k GROUP BY a.k"


def query(selected: str, *, behind: str = "") -> Query:
    return bind_query("q", f"SELECT {selected} {JOIN}{behind}", STREAMS)


def rows(*times: int) -> pa.Table:
    ones = [1] * len(times)
    return pa.table(
        {
            "k": pa.array(ones, pa.int64()),
            "x": pa.array([t - 9 for t in times], pa.int32()),
            "ts": pa.array(times, pa.int64()).cast(pa.timestamp("us")),
        }
    )


def begun(root: Path) -> None:
    run = LocalRun(root, list(STREAMS.values()), [query("SUM(a.x * b.x) AS s, MAX(b.x) AS hi, a.k")])
    run.batch({"a": rows(10), "b": rows(11)})
    run.close()


def test_less_in_another_order_is_found_in_what_was_kept(checkpoint: Path) -> None:
    begun(checkpoint)
    run = LocalRun(checkpoint, list(STREAMS.values()), [query("MAX(b.x) AS hi, COUNT(*) AS n")])
    run.batch({"a": rows(12), "b": rows(13)})
    run.end_of_input()
    found = run.results("q").to_pylist()
    assert sorted((r["hi"], r["n"]) for r in found) == [(2, 1), (2, 2), (4, 4), (4, 4)]


@pytest.mark.parametrize(
    ("selected", "behind", "message"),
    [
        ("SUM(a.x + b.x) AS s", "", "did not keep"),
        ("COUNT(*) AS n", " HAVING COUNT(*) > 1", "other streams, windows or predicates"),
        ("COUNT(*) AS n", ", a.x", "other streams, windows or predicates"),
    ],
)
def test_what_the_state_does_not_hold_is_refused(
    checkpoint: Path, selected: str, behind: str, message: str
) -> None:
    begun(checkpoint)
    with pytest.raises(StateError, match=message):
        LocalRun(checkpoint, list(STREAMS.values()), [query(selected, behind=behind)])
