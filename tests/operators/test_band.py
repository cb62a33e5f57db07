"""Bands against the predicates themselves, which DuckDB evaluates for every pair of rows."""

from __future__ import annotations

import math
import random
from collections import Counter
from datetime import date, datetime
from decimal import Decimal
from functools import partial
from typing import Any
from unittest import mock

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from anabranch.language.flow import bind_query
from anabranch.operators.join import theta_join
from anabranch.operators.join.band import band_match
from anabranch.operators.join.theta_join import theta_match
from anabranch.operators.rows.arrow_types import arrow_type
from anabranch.operators.rows.expressions import join_rows
from anabranch.operators.rows.row_set import RowSet
from anabranch.plan.inputs import HASH, TIME, field_column
from anabranch.plan.logical import Column, Query, Stream
from anabranch.plan.nodes import JoinNode, LeafNode
from tests.plan.queries import plan_of

COLUMNS = {
    "y": "tinyint",
    "i": "int",
    "l": "bigint",
    "f": "float",
    "d": "double",
    "n": "decimal(10,2)",
    "m": "decimal(12,2)",
    "w": "decimal(30,5)",
    "e": "date",
    "u": "timestamp",
    "s": "string",
    "ts": "timestamp",
}
STREAM = Stream("x", tuple(Column(*column) for column in COLUMNS.items()), "ts")
POOLS: dict[str, tuple[Any, ...]] = {
    "tinyint": (0, 1, -1, 100, 127, -128, -127, None),
    "int": (0, 1, 2, 5, -1, 2**31 - 1, -(2**31), None),
    "bigint": (0, 1, 2, 7, 2**53, 2**53 + 1, 2**63 - 1, -(2**63), 2**63 - 3, None),
    "float": (0.0, -0.0, 0.1, 0.2, 0.3, 1.0, 2.5, 3e38, -3e38, math.nan, math.inf, -math.inf, None),
    "double": (0.0, -0.0, 0.1, 0.2, 0.3, 1.0, 2.5, 5e-324, 1.7e308, -1.7e308, 2.0**53, 2.0**53 + 2,
               math.nan, math.inf, -math.inf, None),
    "decimal": (Decimal("0.00"), Decimal("0.10"), Decimal("-1.00"), Decimal("2.50"), Decimal("2.49"), None),
    "date": (date(1970, 1, 1), date(1969, 12, 31), date(2024, 2, 29), None),
    "timestamp": (datetime(1970, 1, 1), datetime(1969, 12, 31), datetime(1970, 1, 1, 0, 0, 1), None),
    "string": ("", "a", "b", None),
}  # fmt: skip
BANDS = (
    *(f"a.{c} {op} b.{c}" for c in "yilfdnweu" for op in ("<", "<=", ">", ">=")),
    *(f"NOT (a.{c} < b.{c})" for c in "ld"),
    *("a.i < b.l", "a.i >= b.d", "a.f <= b.d", "a.n > b.i", "a.n <= b.m"),
    *(f"abs(a.{c} - b.{c}) {op} {w}" for c in "yilfdn" for op in ("<", "<=") for w in ("2", "0", "0.1e0")),
    *(f"abs(a.{c} - b.{c}) <= {w}" for c in "yiln" for w in ("2.45", "0.1", "-1", "3000000000")),
    *(f"abs(a.{c} - b.{c}) <= CAST(0.1 AS FLOAT)" for c in "fd"),
    *(f"a.{c} - b.{c} {op} {w}" for c in "yilfdn" for op in ("<", ">=") for w in ("1", "-0.1e0")),
    *(f"b.{c} - a.{c} BETWEEN -1 AND 2" for c in "yilfdn"),
    *("abs(a.n - b.m) <= 0.1", "abs(a.i - b.l) < 6", "abs(b.f - a.d) <= 0.2e0"),
    *("a.u - b.u <= INTERVAL 1 SECOND", "a.u - b.u > INTERVAL 1 DAY"),
    *("a.l BETWEEN b.l AND b.i", "a.d BETWEEN b.d - 1 AND b.d + 1", "a.u < b.u + INTERVAL 1 DAY"),
    *("a.i < b.i AND a.l > b.l", "abs(a.d - b.d) <= 1e0 AND abs(a.f - b.f) < 1e0 AND a.i <= b.i"),
    *("a.i <= b.i AND a.s <> b.s", "abs(a.i - b.i) <= 2 AND (a.d > b.d OR a.s = b.s)"),
)
"""Predicates; not all of them are bands."""


def bound(where: str) -> Query:
    windows = "x [RANGE 3 MICROSECONDS] a, x [RANGE 9 MICROSECONDS] b"
    return bind_query("q", f"SELECT a.i AS i FROM {windows} WHERE {where}", {"x": STREAM})


def node_of(query: Query) -> JoinNode:
    node = plan_of(query).root
    assert isinstance(node, JoinNode)
    return node


@st.composite
def rows_of(draw: st.DrawFn, query: Query, alias: str, *, most: int = 12) -> RowSet:
    """Rows with nasty values: of each field its type counts, not how it is computed."""
    (ref,) = (ref for ref in query.refs if ref.alias == alias)
    number = draw(st.integers(0, most))
    columns: dict[str, pa.Array] = {
        HASH: pa.array([7] * number, pa.int64()),
        TIME: pa.array(draw(st.lists(st.integers(0, 12), min_size=number, max_size=number)), pa.int64()),
    }
    for field in ref.fields:
        pool = POOLS[field.type.split("(")[0]]
        values = draw(st.lists(st.sampled_from(pool), min_size=number, max_size=number))
        columns[field_column(field)] = pa.array(values, arrow_type(field.type))
    return RowSet.sorted(pa.RecordBatch.from_pydict(columns), TIME)


def many_rows(query: Query, alias: str, *, number: int, seed: int) -> RowSet:
    (ref,) = (ref for ref in query.refs if ref.alias == alias)
    rng = random.Random(seed)
    columns: dict[str, pa.Array] = {
        HASH: pa.array([7] * number, pa.int64()),
        TIME: pa.array([rng.randrange(12) for _ in range(number)], pa.int64()),
    }
    for field in ref.fields:
        values = rng.choices(POOLS[field.type.split("(")[0]], k=number)
        columns[field_column(field)] = pa.array(values, arrow_type(field.type))
    return RowSet.sorted(pa.RecordBatch.from_pydict(columns), TIME)


def by_definition(node: JoinNode, new: RowSet, old: RowSet) -> Counter[tuple[int, int]]:
    left, right = (
        theta_join._operand(node, side, rows, row=name)
        for side, rows, name in ((node.left, new, "l"), (node.right, old, "r"))
    )
    found: Counter[tuple[int, int]] = Counter()
    for pairs in join_rows(left, right, node.residuals):
        found.update(zip(pairs.column("l").to_pylist(), pairs.column("r").to_pylist(), strict=True))
    return found


def matched(node: JoinNode, left: RowSet, right: RowSet, *, new_is_left: bool) -> Counter[tuple[int, int]]:
    found: Counter[tuple[int, int]] = Counter()
    if new_is_left:
        for ours, theirs in theta_match(node, node.left, left, node.right, right):
            found.update(zip(ours.tolist(), theirs.tolist(), strict=True))
    else:
        for theirs, ours in theta_match(node, node.right, right, node.left, left):
            found.update(zip(ours.tolist(), theirs.tolist(), strict=True))
    return found


@given(st.data())
def test_bands_find_exactly_the_pairs_that_satisfy_the_predicates(data: st.DataObject) -> None:
    query = bound(data.draw(st.sampled_from(BANDS)))
    node = node_of(query)
    left, right = data.draw(rows_of(query, "a")), data.draw(rows_of(query, "b"))
    chunked = partial(band_match, chunk=data.draw(st.sampled_from((1, 3, 1 << 20))))
    wanted = by_definition(node, left, right)
    with (
        mock.patch.object(theta_join, "band_match", chunked),
        mock.patch.object(theta_join, "MOST_SHARE", data.draw(st.sampled_from((2.0, 1 / 16)))),
        mock.patch.object(theta_join, "FEWER", data.draw(st.sampled_from((0.0, 4.0)))),
    ):
        assert matched(node, left, right, new_is_left=True) == wanted
        assert matched(node, left, right, new_is_left=False) == wanted


@pytest.mark.parametrize("where", BANDS)
def test_every_form_is_right_for_every_pair_of_nasty_values(where: str) -> None:
    query = bound(where)
    node = node_of(query)
    left, right = (many_rows(query, alias, number=150, seed=i) for i, alias in enumerate("ab"))
    wanted = by_definition(node, left, right)
    with mock.patch.object(theta_join, "MOST_SHARE", 2.0):
        assert matched(node, left, right, new_is_left=True) == wanted
        assert matched(node, left, right, new_is_left=False) == wanted


@pytest.mark.parametrize(
    ("where", "number", "rest"),
    [
        ("a.i < b.l", 1, 0),
        ("abs(a.d - b.d) <= 2", 1, 0),
        ("abs(a.n - b.n) < 0.5", 1, 0),
        ("a.l BETWEEN b.l AND b.i", 2, 0),
        ("a.d - b.d BETWEEN -2 AND 2", 1, 0),
        ("b.u - a.u <= INTERVAL 5 SECONDS AND a.s <> b.s", 1, 1),
        ("a.d - b.d >= 1", 0, 1),
        ("a.w < b.w", 0, 1),
        ("a.s < b.s", 0, 1),
        ("CAST(a.l - b.l AS INT) < 5", 0, 1),
        ("abs(a.i - b.i) > 5", 0, 1),
        ("abs(a.l - b.l) < 1e19", 0, 1),
    ],
)
def test_only_what_integers_or_a_rounded_difference_decide_becomes_a_band(
    where: str, number: int, rest: int
) -> None:
    node = node_of(bound(where))
    assert (len(node.bands), len(node.beside_bands)) == (number, rest)


def test_pairs_come_in_bounded_chunks_whatever_the_fan_out() -> None:
    query = bound("abs(a.l - b.l) <= 1000000")
    node = node_of(query)
    rng = np.random.default_rng(3)

    def rows(side: object, number: int) -> RowSet:
        assert isinstance(side, LeafNode)
        columns = {HASH: np.full(number, 7), TIME: np.full(number, 5)}
        columns |= {physical: rng.integers(0, 100, number) for physical in side.names.values()}
        return RowSet.sorted(pa.RecordBatch.from_pydict({n: pa.array(c) for n, c in columns.items()}), TIME)

    left, right = rows(node.left, 900), rows(node.right, 1000)
    chunked = partial(band_match, chunk=1000)
    with mock.patch.object(theta_join, "band_match", chunked):
        chunks = [len(ours) for ours, _ in theta_match(node, node.left, left, node.right, right)]
    assert sum(chunks) == 900_000
    assert max(chunks) == 1000
