"""The group filter finds what DuckDB finds, predicate by predicate."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from anabranch.operators.filter.group_filter import GroupFilter
from anabranch.plan.predicate import (
    FALSE,
    TRUE,
    Between,
    Conjunction,
    Constraint,
    IsNull,
    NoneOf,
    OneOf,
    Predicate,
    starts_with,
)

TYPES = {
    "long": pa.int64(),
    "small": pa.int8(),
    "number": pa.float64(),
    "text": pa.large_string(),
    "money": pa.decimal128(10, 2),
    "huge": pa.decimal128(38, 4),
    "time": pa.timestamp("us"),
    "day": pa.date32(),
    "flag": pa.bool_(),
}
EDGES: dict[str, list[Any]] = {
    "long": [-(2**63), 2**63 - 1, -1, 0, 1, 2**53 + 1, 7, 8],
    "small": [-128, 127, 0, 1],
    "number": [0.0, -0.0, float("nan"), float("inf"), float("-inf"), 5e-324, -5e-324, 1.5, 2.5, 1e308],
    "text": ["", "a", "ab", "abc", "ac", "é", "e\u0301", "a\x00", "a ", "\U0010ffff", "z" * 300],
    "money": [Decimal("0.00"), Decimal("-1.25"), Decimal("99999999.99"), Decimal("1.26")],
    "huge": [Decimal("0.0001"), Decimal("9" * 34 + ".9999"), Decimal("-1.5000")],
    "time": [dt.datetime(1970, 1, 1), dt.datetime(1969, 12, 31, 23, 59, 59, 999999), dt.datetime(9999, 1, 1)],
    "day": [dt.date(1970, 1, 1), dt.date(1677, 9, 21), dt.date(2024, 2, 29)],
    "flag": [True, False],
}


def constraints(name: str) -> st.SearchStrategy[Constraint]:
    value = st.sampled_from(EDGES[name])
    bound, is_open = st.none() | value, st.booleans()
    some = st.lists(value, min_size=1, max_size=4).map(tuple)
    found = [
        st.builds(Between, st.just(name), bound, bound, is_open, is_open),
        st.builds(OneOf, st.just(name), some),
        st.builds(NoneOf, st.just(name), some),
        st.just(IsNull(name)),
    ]
    if name == "text":
        found.append(
            st.builds(starts_with, st.just(name), st.sampled_from(["", "a", "ab", "é", "\U0010ffff"]))
        )
    return st.one_of(found)


RESTS = ["long % 2 = 1", "length(text) > 1", "flag"]
CONJUNCTIONS = st.builds(
    Conjunction,
    st.lists(st.sampled_from(list(TYPES)).flatmap(constraints), max_size=3).map(tuple),
    st.lists(st.sampled_from(RESTS), max_size=1).map(tuple),
)
PREDICATES = st.lists(CONJUNCTIONS, max_size=3).map(lambda found: Predicate(tuple(found)))


@st.composite
def tables(draw: st.DrawFn) -> pa.Table:
    size = draw(st.integers(0, 12))
    columns = {
        name: pa.array(
            draw(st.lists(st.none() | st.sampled_from(EDGES[name]), min_size=size, max_size=size)), kind
        )
        for name, kind in TYPES.items()
    }
    return pa.table(columns)


def as_sql(predicate: Predicate, constants: list[pa.Scalar]) -> str:
    def held(name: str, value: Any) -> str:
        if name == "text":  # bounds may be bytes that are no text
            constants.append(
                pa.scalar(value if isinstance(value, bytes) else value.encode(), pa.large_binary())
            )
        else:
            constants.append(pa.scalar(value, TYPES[name]))
        return f"k{len(constants) - 1}"

    def one(c: Constraint) -> str:
        name = f"encode({c.attribute})" if c.attribute == "text" else c.attribute
        match c:
            case IsNull():
                return f"{name} IS NULL"
            case Between(_, low, high, low_open, high_open):
                parts = [f"{name} IS NOT NULL"]
                parts += (
                    [f"{name} {'>' if low_open else '>='} {held(c.attribute, low)}"]
                    if low is not None
                    else []
                )
                parts += (
                    [f"{name} {'<' if high_open else '<='} {held(c.attribute, high)}"]
                    if high is not None
                    else []
                )
                return " AND ".join(parts)
            case _:
                among = f"{name} IN ({', '.join(held(c.attribute, v) for v in c.values)})"
                return among if isinstance(c, OneOf) else f"NOT ({among})"

    both = (
        "(" + " AND ".join([*map(one, c.constraints), *c.rest] or ["true"]) + ")" for c in predicate.any_of
    )
    return " OR ".join(both) or "false"


def rows_by_duckdb(rows: pa.Table, predicate: Predicate) -> list[int]:
    constants: list[pa.Scalar] = []
    sql = as_sql(predicate, constants)
    table = rows.append_column("row", pa.array(np.arange(rows.num_rows)))
    for i, constant in enumerate(constants):
        table = table.append_column(f"k{i}", pa.repeat(constant, rows.num_rows))
    found = duckdb.from_arrow(table).query("t", f"SELECT row FROM t WHERE {sql} ORDER BY row")
    return [row for (row,) in found.fetchall()]


def rows_by_index(filters: GroupFilter, rows: pa.Table, **options: int) -> dict[int, list[int]]:
    found: dict[int, list[int]] = {}
    for matches in filters.matches(rows, **options):
        for member, its in matches.by_member():
            found.setdefault(member, []).extend(its.tolist())
    return {member: sorted(its) for member, its in found.items()}


@given(rows=tables(), predicates=st.lists(PREDICATES, min_size=1, max_size=6), data=st.data())
@settings(max_examples=80, deadline=None)
def test_each_member_gets_the_rows_that_its_predicate_is_true_for(
    rows: pa.Table, predicates: list[Predicate], data: st.DataObject
) -> None:
    filters = GroupFilter(TYPES)
    for member, predicate in enumerate(predicates):
        filters.add(member, predicate)
        if data.draw(st.booleans()):
            list(filters.matches(rows))
    gone = data.draw(st.sets(st.integers(0, len(predicates) - 1)))
    for member in gone:
        filters.remove(member)
    most = data.draw(st.sampled_from([1, 3, 1000]))
    expected = {m: rows_by_duckdb(rows, p) for m, p in enumerate(predicates) if m not in gone}
    assert rows_by_index(filters, rows, most=most) == {m: found for m, found in expected.items() if found}


@pytest.mark.parametrize("members", [3, 700, 20_000])
def test_large_indexes_find_what_comparing_finds(members: int) -> None:
    rng = np.random.default_rng(members)
    key, low = rng.integers(0, members, members), rng.random(members)
    low_row = rng.random(3000)
    rows = pa.table({"key": rng.integers(0, members, 3000), "x": low_row})
    filters = GroupFilter({"key": pa.int64(), "x": pa.float64()})
    filters.add_all(
        (
            m,
            Predicate(
                (
                    Conjunction((OneOf("key", (int(key[m]),)),)),
                    Conjunction((Between("x", low[m], low[m] + 1 / members),)),
                )
            ),
        )
        for m in range(members)
    )
    found = sorted(
        (r, m)
        for matches in filters.matches(rows)
        for r, m in zip(matches.rows.tolist(), matches.members.tolist(), strict=True)
    )
    keys, expected = rows.column("key").to_numpy(), []
    for m in range(members):
        hit = (keys == key[m]) | ((low_row >= low[m]) & (low_row <= low[m] + 1 / members))
        expected += [(r, m) for r in np.flatnonzero(hit).tolist()]
    assert found == sorted(expected)


@pytest.mark.parametrize("width", [0.0005, 0.3])
@pytest.mark.parametrize("members", [1, 40, 500])
def test_intervals_alone_find_what_comparing_finds(members: int, width: float) -> None:
    rng = np.random.default_rng(members)
    low = rng.random(members).round(3)
    values = np.append(rng.random(1000).round(3), [*low, *(low + width), -1.0, 2.0])
    gone = set(range(0, members, 3)) if members > 1 else set()
    filters = GroupFilter({"x": pa.float64()})
    filters.add_all((m, Predicate((Conjunction((Between("x", v, v + width),)),))) for m, v in enumerate(low))
    known = rng.random(len(values)) < 0.9
    rows = pa.table({"x": pa.array(values, mask=~known)})
    list(filters.matches(rows.slice(0, 1)))  # what goes after this is marked dead
    for member in gone:
        filters.remove(member)
    hits = (values[:, None] >= low) & (values[:, None] <= low + width) & known[:, None]
    expected = {m: np.flatnonzero(hits[:, m]).tolist() for m in range(members) if m not in gone}
    for most in (1, 1000):
        assert rows_by_index(filters, rows, most=most) == {m: its for m, its in expected.items() if its}


def test_adding_one_predicate_does_not_rebuild_the_rest() -> None:
    filters = GroupFilter({"key": pa.int64()})
    rows = pa.table({"key": [1, 2, 3]})
    filters.add_all((m, Predicate((Conjunction((OneOf("key", (m,)),)),))) for m in range(50_000))
    list(filters.matches(rows))
    before = filters.built
    for m in range(50_000, 50_100):
        filters.add(m, Predicate((Conjunction((OneOf("key", (m % 5,)),)),)))
        list(filters.matches(rows))
    assert (filters.built - before) / 100 < 600
    assert rows_by_index(filters, rows)[50_001] == [0]


def test_a_removed_member_is_found_no_more_and_may_come_back_with_another_predicate() -> None:
    filters = GroupFilter({"key": pa.int64()})
    rows = pa.table({"key": [1, 2, None]})
    filters.add_all([(0, TRUE), (1, FALSE), (2, Predicate((Conjunction((IsNull("key"),)),)))])
    assert rows_by_index(filters, rows) == {0: [0, 1, 2], 2: [2]}
    filters.remove(0)
    assert rows_by_index(filters, rows) == {2: [2]}
    filters.add(0, Predicate((Conjunction((Between("key", 2),)),)))
    assert rows_by_index(filters, rows) == {0: [1], 2: [2]}
    assert len(filters) == 3


def test_an_unknown_attribute_is_refused_with_those_there_are() -> None:
    with pytest.raises(ValueError, match="there are key"):
        GroupFilter({"key": pa.int64()}).add(0, Predicate((Conjunction((IsNull("kee"),)),)))
