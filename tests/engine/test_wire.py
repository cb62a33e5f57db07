"""Rows on the wire, back in their own types."""

from __future__ import annotations

from collections.abc import Callable
from datetime import date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from anabranch.engine.task.arrival.wire import decode, lane_type_of, wire_of
from anabranch.operators.rows.arrow_types import arrow_type
from anabranch.plan.inputs import HASH, TIME, Input, Route
from anabranch.plan.logical import Field

SAMPLES: list[tuple[str, list[Any], list[Any]]] = [
    ("boolean", [1, 0, None], [True, False, None]),
    ("tinyint", [-128, 127, None], [-128, 127, None]),
    ("bigint", [-(2**63), 2**63 - 1, None], [-(2**63), 2**63 - 1, None]),
    ("float", [1.5, -0.0, None], [1.5, -0.0, None]),
    ("date", [0, -1, None], [date(1970, 1, 1), date(1969, 12, 31), None]),
    ("timestamp", [0, -1, None], [datetime(1970, 1, 1), datetime(1969, 12, 31, 23, 59, 59, 999999), None]),
    ("string", ["", "e\u0301", None], ["", "e\u0301", None]),
    ("binary", [b"", b"\xff", None], [b"", b"\xff", None]),
    ("decimal(20,5)", [Decimal("1.00000"), Decimal("-2.50000"), None], [Decimal(1), Decimal("-2.5"), None]),
]


def source(number: int, *types: str) -> Input:
    fields = tuple(Field(f"`c{i}`", kind) for i, kind in enumerate(types))
    return Input(number, f"s{number}", "s", None, Route(()), (), fields)


def decoded(kind: str, lane: pa.Array) -> pa.Array:
    wire = wire_of([source(0, kind)])
    (value,) = wire.values[0]
    zeros = pa.array([0] * len(lane), pa.int64())
    rows = pa.RecordBatch.from_pydict({HASH: zeros, TIME: zeros, value.lane: lane})
    return decode(rows, wire.values[0]).column(value.column)


@pytest.mark.parametrize(("kind", "sent", "expected"), SAMPLES, ids=[kind for kind, _, _ in SAMPLES])
def test_a_value_comes_out_of_its_lane_as_it_went_in(kind: str, sent: list[Any], expected: list[Any]) -> None:
    found = decoded(kind, pa.array(sent, arrow_type(lane_type_of(kind))))
    assert found.type == arrow_type(kind)
    assert found.to_pylist() == expected


@pytest.mark.parametrize(
    "variant",
    [
        lambda a: a.cast(pa.string()),
        lambda a: a.cast(pa.string_view()),
        lambda a: a.dictionary_encode(),
        lambda a: pa.concat_arrays([a, a]).slice(1, len(a)),
    ],
    ids=["string", "string_view", "dictionary", "sliced"],
)
def test_text_in_any_layout_becomes_the_one_that_kernels_take(
    variant: Callable[[pa.Array], pa.Array],
) -> None:
    """Nasty input 25."""
    sent = variant(pa.array(["a", "b", None], pa.large_string()))
    found = decoded("string", sent)
    assert found.type == pa.large_string()
    assert found.to_pylist() == sent.to_pylist()


def test_streams_share_lanes_so_that_the_wire_is_as_wide_as_the_widest() -> None:
    wire = wire_of([source(0, "int", "string", "bigint"), source(1, "date", "double", "string", "string")])
    assert [name for name, _ in wire.lanes] == ["bigint#1", "string#1", "bigint#2", "double#1", "string#2"]
