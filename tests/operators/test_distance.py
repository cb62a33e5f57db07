"""Distances of vectors against the definition, which DuckDB evaluates for every pair of rows."""

from __future__ import annotations

from unittest import mock

import numpy as np
import pyarrow as pa
import pytest

from anabranch.language.flow import bind_query
from anabranch.operators.join import theta_join
from anabranch.operators.rows.row_set import RowSet
from anabranch.plan.inputs import HASH, TIME, field_column
from anabranch.plan.logical import Column, Query, Stream
from anabranch.plan.nodes import JoinNode
from tests.operators.test_band import by_definition, matched, node_of

DIMENSIONS = 40
STREAM = Stream(
    "x",
    (
        *(Column(f"v{i}", "double") for i in range(DIMENSIONS)),
        Column("k", "bigint"),
        Column("ts", "timestamp"),
    ),
    "ts",
)
NASTY = (0.0, -0.0, np.nan, np.inf, -np.inf, 1e200, -1e200, 1e-200, 5e-324, 1e20, 1.0)


def bound(dimensions: int, condition: str) -> Query:
    a, b = (", ".join(f"{alias}.v{i}" for i in range(dimensions)) for alias in "ab")
    windows = "x [RANGE 3 MICROSECONDS] a, x [RANGE 9 MICROSECONDS] b"
    where = f"l2_distance(array({a}), array({b})) {condition}"
    return bind_query("q", f"SELECT a.k FROM {windows} WHERE {where}", {"x": STREAM})


def rows_of(query: Query, alias: str, values: np.ndarray) -> RowSet:
    """Rows with vectors, the last of their columns NULL at times."""
    (ref,) = (ref for ref in query.refs if ref.alias == alias)
    number = len(values)
    rng = np.random.default_rng(number)
    columns = {
        HASH: pa.array(np.full(number, 7)),
        TIME: pa.array(rng.integers(0, 12, number)),
        **{field_column(f): pa.array(rng.integers(0, 9, number)) for f in ref.fields if f.type == "bigint"},
    }
    vectors = [field for field in ref.fields if field.type == "double"]
    for i, field in enumerate(vectors):
        unknown = rng.random(number) < 0.1 if field is vectors[-1] else None
        columns[field_column(field)] = pa.array(values[:, i], mask=unknown)
    return RowSet.sorted(pa.RecordBatch.from_pydict(columns), TIME)


def check(query: Query, left: np.ndarray, right: np.ndarray) -> int:
    node = node_of(query)
    rows, others = rows_of(query, "a", left), rows_of(query, "b", right)
    wanted = by_definition(node, rows, others)
    assert matched(node, rows, others, new_is_left=True) == wanted
    assert matched(node, rows, others, new_is_left=False) == wanted
    return wanted.total()


@pytest.mark.parametrize("few", [0, 4, 100], ids=lambda few: f"bands up to {few} dimensions")
@pytest.mark.parametrize("dimensions", [1, 2, 5, DIMENSIONS])
@pytest.mark.parametrize("origin", [0.0, 1e9, -1e-9])
def test_vectors_on_a_grid_are_as_far_apart_as_the_definition_says(
    few: int, dimensions: int, origin: float
) -> None:
    """Many distances are the largest one exactly, or differ from it in the last digit."""
    rng = np.random.default_rng(dimensions)
    left, right = (origin + 0.1 * rng.integers(0, 4, (300, dimensions)) for _ in range(2))
    found = 0
    with mock.patch.object(theta_join, "FEW_DIMENSIONS", few):
        for most in np.sqrt(np.array([1, 2, 5, 10, 40, 80])) * 0.1:
            found += check(bound(dimensions, f"<= {float(most)!r}"), left, right)
            found += check(bound(dimensions, f"< {float(most)!r}D"), left, right)
    assert found


@pytest.mark.parametrize("few", [0, 4, 100])
@pytest.mark.parametrize("dimensions", [1, 3, 6])
@pytest.mark.parametrize(
    "condition", ["<= 0", "< 1", "<= 1e-200", "< 1e200", "<= 1.5e200", "< -1", "<= 1e21"]
)
def test_nasty_numbers_are_as_far_apart_as_the_definition_says(
    few: int, dimensions: int, condition: str
) -> None:
    rng = np.random.default_rng(5)
    left, right = (rng.choice(NASTY, (120, dimensions), p=[0.4, *[0.06] * 10]) for _ in range(2))
    with mock.patch.object(theta_join, "FEW_DIMENSIONS", few):
        check(bound(dimensions, condition), left, right)


def test_other_predicates_hold_beside_a_distance() -> None:
    rng = np.random.default_rng(6)
    left, right = rng.random((200, 6)), rng.random((200, 6))
    for dimensions in (2, 6):
        query = bound(dimensions, "< 0.5 AND a.k < b.k AND (a.k + b.k) % 3 <> 1")
        assert check(query, left, right)


def test_a_distance_is_found_where_each_vector_is_of_one_stream() -> None:
    def node(where: str) -> JoinNode:
        windows = "x [NOW] a, x [NOW] b"
        return node_of(bind_query("q", f"SELECT a.k FROM {windows} WHERE {where}", {"x": STREAM}))

    assert node("l2_distance(array(a.v0, a.v1), array(b.v0, b.v1)) < 1").distance
    assert node("1 > l2_distance(array(b.v0, b.k), array(a.v0, a.v1))").distance
    assert node("l2_distance(array(a.v0, a.v1), array(b.v0, b.v1)) > 1").distance is None
    assert node("l2_distance(array(a.v0, b.v1), array(b.v0, a.v1)) < 1").distance is None
