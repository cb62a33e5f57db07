"""The oracle itself, against a definition that needs no SQL."""

from __future__ import annotations

import itertools
from collections import Counter
from datetime import datetime, timedelta
from typing import Any

import duckdb
import pytest
from hypothesis import given
from hypothesis import strategies as st

from anabranch.language.flow import bind_query
from anabranch.language.oracle.oracle_sql import oracle_sql, oracle_table
from anabranch.plan.logical import UNBOUNDED_US, Column, Stream
from tests.language import nasty

STREAMS = {
    name: Stream(name, (Column("k", "int"), Column("v", "double"), Column("ts", "timestamp")), "ts")
    for name in ("r", "s", "t")
}
Row = tuple[int | None, float, int]


def run(text: str, rows: dict[str, list[Row]]) -> Counter[tuple[Any, ...]]:
    """Evaluate the oracle; the third value of a row is its time in microseconds."""
    with duckdb.connect() as connection:
        for name, stream in STREAMS.items():
            connection.execute(oracle_table(stream))
            for k, v, micros in rows.get(name, []):
                moment = datetime(2024, 1, 1) + timedelta(microseconds=micros)
                connection.execute(f"INSERT INTO {name} VALUES (?, ?, ?)", [k, v, moment])
        return Counter(connection.execute(oracle_sql(bind_query("q", text, STREAMS), STREAMS)).fetchall())


@pytest.mark.parametrize(
    ("window", "gap", "joined"),
    [("10", 10, True), ("10", 11, False), ("0", 0, True), ("0", 1, False)],
    ids=["on the bound", "one microsecond beyond", "same time", "one microsecond apart"],
)
def test_a_window_includes_its_bound(window: str, gap: int, joined: bool) -> None:
    #   r ├──── window ────┤
    #   r                  s
    text = f"SELECT r.v FROM r [RANGE {window} MICROSECONDS], s [NOW]"
    assert run(text, {"r": [(1, 1.0, 0)], "s": [(1, 1.0, gap)]}) == ({(1.0,): 1} if joined else {})


def test_every_window_is_measured_from_the_newest_row() -> None:
    #   r ├─ 10 ─┤
    #        s ├─ 10 ─┤
    #               t          r and t are 12 apart, though both meet s
    text = "SELECT r.k FROM r [RANGE 10 MICROSECONDS], s [RANGE 10 MICROSECONDS], t [NOW]"
    assert run(text, {"r": [(1, 0.0, 0)], "s": [(1, 0.0, 6)], "t": [(1, 0.0, 12)]}) == {}
    assert run(text, {"r": [(1, 0.0, 2)], "s": [(1, 0.0, 6)], "t": [(1, 0.0, 12)]}) == {(1,): 1}


def test_true_duplicates_are_kept_and_null_keys_never_match() -> None:
    rows = {"r": [(1, 0.0, 0)] * 2 + [(None, 0.0, 0)], "s": [(1, 0.0, 0)] * 3 + [(None, 0.0, 0)]}
    assert run("SELECT r.k FROM r [NOW], s [NOW] WHERE r.k = s.k", rows) == {(1,): 6}


def test_one_stream_is_filtered_and_projected_without_a_window() -> None:
    assert run("SELECT v FROM r WHERE k > 1", {"r": [(1, 1.0, 0), (2, 2.0, 99)]}) == {(2.0,): 1}


def test_blanks_are_trimmed_off_any_bytes() -> None:
    rows = nasty.with_text_that_is_not_utf8(nasty.nasty_rows())
    query = nasty.bind(["s1", "trim(s1)", "ltrim(s1)", "rtrim(s1)", "trim(trim(trim(s1)))"])
    _, texts, *trimmed = nasty.in_duckdb(query, rows)
    expected = [
        [text and strip(text, b" ") for text in texts]
        for strip in (bytes.strip, bytes.lstrip, bytes.rstrip, bytes.strip)
    ]
    assert trimmed == expected


row = st.tuples(st.integers(0, 2) | st.none(), st.integers(0, 3).map(float), st.integers(0, 12))
window = st.sampled_from([0, 3, 7, UNBOUNDED_US])


@given(st.lists(st.lists(row, max_size=6), min_size=3, max_size=3), st.lists(window, min_size=3, max_size=3))
def test_three_streams_give_what_the_definition_says(streams: list[list[Row]], windows: list[int]) -> None:
    names = ("r", "s", "t")
    sizes = ["UNBOUNDED" if w == UNBOUNDED_US else f"{w} MICROSECONDS" for w in windows]
    tables = ", ".join(f"{name} [RANGE {size}]" for name, size in zip(names, sizes, strict=True))
    text = f"SELECT r.v AS a, s.v AS b, t.v AS c FROM {tables} WHERE r.k = s.k AND (s.v < t.v OR t.k = r.k)"
    expected: Counter[tuple[Any, ...]] = Counter()
    for r, s, t in itertools.product(*streams):
        newest = max(r[2], s[2], t[2])
        inside = all(newest - x[2] <= w for x, w in zip((r, s, t), windows, strict=True))
        equal = r[0] is not None and r[0] == s[0]
        if inside and equal and (s[1] < t[1] or (t[0] is not None and t[0] == r[0])):
            expected[(r[1], s[1], t[1])] += 1
    assert run(text, dict(zip(names, streams, strict=True))) == expected
