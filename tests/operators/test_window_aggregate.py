"""Aggregates of windows, beside a plain loop over the rows that knows no blocks, trees or hashes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from anabranch.exchange.address import PARTITIONS
from anabranch.language.flow import bind_query
from anabranch.operators.group.final_rows import Emission
from anabranch.operators.group.window_aggregate import WindowAggregate
from anabranch.operators.rows.arrow_types import arrow_type
from anabranch.operators.rows.row_set import RowSet
from anabranch.operators.work_memory import QuotaExceeded
from anabranch.plan.inputs import HASH, TIME, field_column, layout_of
from anabranch.plan.local_plan import LocalPlan, compile_plan
from anabranch.plan.logical import Column, Stream
from anabranch.plan.tree import default_plan

FOREVER = Emission(-(2**62), 2**62)
ALL = np.ones(PARTITIONS, dtype=bool)


def plan_of(select: str, kind: str) -> LocalPlan:
    stream = Stream("s", (Column("k", "bigint"), Column("x", kind), Column("ts", "timestamp")), "ts")
    layout = layout_of([bind_query("q", select, {"s": stream})], {})
    return compile_plan(layout, layout.queries[0], default_plan(layout.queries[0].graph))


def block(plan: LocalPlan, rows: Sequence[tuple[int, int, Any]]) -> RowSet:
    """Rows (key, time, value) as a block: every key is its own hash."""
    columns: dict[str, pa.Array] = {
        HASH: pa.array([k for k, _, _ in rows], pa.int64()),
        TIME: pa.array([t for _, t, _ in rows], pa.int64()),
    }
    for field in plan.query.refs[0].fields:
        number = 0 if "`k`" in field.sql else 2
        values = [row[number] for row in rows]
        columns[field_column(field)] = pa.array(values, arrow_type(field.type))
    return RowSet.sorted(pa.record_batch(columns), TIME)


def results(
    plan: LocalPlan, blocks: Sequence[RowSet], emission: Emission = FOREVER, quota: int = 10**9
) -> list[dict[str, Any]]:
    assert plan.window is not None
    tables: list[pa.Table] = []
    operator = WindowAggregate(
        plan.query,
        plan.window,
        blocks=blocks,
        emission=emission,
        owned=ALL,
        emit=tables.append,
        quota=quota,
    )
    operator.run()
    return [row for table in tables for row in table.to_pylist()]


def only(select: str, kind: str, values: Sequence[Any]) -> Any:
    """The aggregate `a` of the newest row, all values being in its window."""
    plan = plan_of(select, kind)
    found = results(plan, [block(plan, [(1, i, v)]) for i, v in enumerate(values)])
    return found[-1]["a"]


@pytest.mark.parametrize(
    ("function", "kind", "values", "expected"),
    [
        ("SUM", "bigint", [2**63 - 1, 1, -1], 2**63 - 1),
        ("SUM", "bigint", [2**63 - 1, 1], None),
        ("SUM", "bigint", [-(2**63), -1], None),
        ("SUM", "bigint", [-(2**63), 2**63 - 1], -1),
        ("SUM", "int", [2**31 - 1] * 3, 3 * (2**31 - 1)),
        ("SUM", "bigint", [None, None], None),
        ("SUM", "double", [math.inf, 1.0, -math.inf], math.nan),
        ("SUM", "double", [math.inf, 1.0], math.inf),
        ("SUM", "decimal(10,2)", [Decimal("1.50"), None, Decimal("-0.25")], Decimal("1.25")),
        ("SUM", "decimal(38,0)", [Decimal(10**38 - 1), Decimal(-5)], Decimal(10**38 - 6)),
        ("SUM", "decimal(38,0)", [Decimal(10**38 - 1), Decimal(1)], None),
        ("SUM", "decimal(38,0)", [Decimal(-(10**38) + 1)] * 3, None),
        ("AVG", "bigint", [2**63 - 1, 2**63 - 1], float(2**63)),
        ("AVG", "decimal(30,2)", [Decimal("-2.25"), None], -2.25),
        ("MIN", "double", [math.nan, 1.0, -0.0, math.inf], 0.0),
        ("MAX", "double", [math.nan, 1.0], math.nan),
        ("MIN", "double", [math.nan, None], math.nan),
        ("MAX", "float", [-math.inf, None, -1.5], -1.5),
        ("MIN", "bigint", [2**63 - 1, None], 2**63 - 1),
        ("MAX", "bigint", [-(2**63)], -(2**63)),
        ("MAX", "string", ["b", None, "é", "a"], "é"),
        ("MIN", "string", ["b", "", None], ""),
        ("MIN", "string", [None, None], None),
        ("MAX", "boolean", [False, None, True], True),
        ("MIN", "decimal(38,0)", [Decimal(10**30), Decimal(-(10**30))], Decimal(-(10**30))),
        ("COUNT", "string", ["a", None, "b"], 2),
        ("STDDEV", "double", [1.0], None),
        ("STDDEV", "double", [2.0, 4.0, 4.0, 4.0, 5.0, 5.0, 7.0, 9.0], math.sqrt(32 / 7)),
        ("STDDEV_POP", "bigint", [2, 4, 4, 4, 5, 5, 7, 9], 2.0),
        ("VAR_POP", "double", [3.0], 0.0),
        ("VARIANCE", "double", [1e9 + 4, 1e9 + 7, 1e9 + 13, 1e9 + 16], 30.0),
        ("VARIANCE", "double", [1.0, math.nan], math.nan),
        ("VARIANCE", "double", [1.0, math.inf], math.nan),
    ],
)
def test_an_aggregate_of_odd_values(function: str, kind: str, values: list[Any], expected: Any) -> None:
    found = only(f"SELECT {function}(x) AS a FROM s [RANGE UNBOUNDED]", kind, values)
    if isinstance(expected, float):
        assert found == pytest.approx(expected, rel=1e-12, nan_ok=True)
    else:
        assert found == expected


ROWS = st.lists(
    st.tuples(st.integers(0, 3), st.integers(0, 12), st.none() | st.integers(-3, 3)), min_size=1, max_size=40
)


@given(ROWS, st.integers(1, 5), st.sampled_from((0, 1, 4, 100)), st.integers(0, 12))
def test_windows_by_time_over_many_blocks_agree_with_a_loop(
    rows: list[tuple[int, int, int | None]], blocks: int, window: int, since: int
) -> None:
    plan = plan_of(
        "SELECT k, COUNT(*) AS n, COUNT(x) AS c, SUM(x) AS s, MIN(x) AS lo, MAX(x) AS hi, AVG(x) AS m, "
        f"VAR_POP(x) AS v FROM s [RANGE {window} MICROSECONDS] GROUP BY k",
        "bigint",
    )
    cut = [rows[i::blocks] for i in range(blocks)]
    found = results(plan, [block(plan, part) for part in cut if part], Emission(since, 10))
    expected = [_by_hand(rows, k, t, window) for k, t, _ in rows if since <= t < 10]
    assert sorted(map(_shown, found)) == sorted(map(_shown, expected))


def _by_hand(rows: list[tuple[int, int, int | None]], key: int, time: int, window: int) -> dict[str, Any]:
    inside = [x for k, t, x in rows if k == key and time - window <= t <= time]
    known = [x for x in inside if x is not None]
    mean = sum(known) / len(known) if known else None
    return {
        "k": key,
        "n": len(inside),
        "c": len(known),
        "s": sum(known) if known else None,
        "lo": min(known, default=None),
        "hi": max(known, default=None),
        "m": mean,
        "v": sum((x - mean) ** 2 for x in known) / len(known) if mean is not None else None,
    }


def _shown(row: dict[str, Any]) -> str:
    return repr({n: round(v, 9) + 0.0 if isinstance(v, float) else v for n, v in row.items()})


def test_a_hot_group_of_many_rows_costs_no_square() -> None:
    plan = plan_of("SELECT COUNT(*) AS n, MAX(x) AS hi, SUM(x) AS s FROM s [RANGE UNBOUNDED]", "double")
    size = 200_000
    rows = [(1, i, float(i % 7)) for i in range(size)]
    found = results(plan, [block(plan, rows)], Emission(size // 2, size))
    assert len(found) == size // 2
    assert found[-1] == {"n": size, "hi": 6.0, "s": sum(float(i % 7) for i in range(size))}


def test_a_thousand_rows_of_one_time_are_in_each_others_windows() -> None:
    plan = plan_of("SELECT COUNT(*) AS n FROM s [NOW] GROUP BY k", "bigint")
    parts = [block(plan, [(5, 7, 1)] * 500), block(plan, [(5, 7, 1)] * 500 + [(6, 7, 1)])]
    counts = sorted(row["n"] for row in results(plan, parts))
    assert counts == [1] + [1000] * 1000


def test_the_quota_ends_a_step_that_folds_too_much() -> None:
    plan = plan_of("SELECT COUNT(*) AS n FROM s [NOW] GROUP BY k", "bigint")
    with pytest.raises(QuotaExceeded, match="query 'q' looked into more than 5 ranges"):
        results(plan, [block(plan, [(1, t, 1) for t in range(6)])], quota=5)


def test_sums_of_floating_numbers_differ_from_exact_ones_by_rounding_only() -> None:
    plan = plan_of("SELECT SUM(x) AS s FROM s [RANGE UNBOUNDED]", "double")
    values = np.random.default_rng(7).normal(scale=1e6, size=20_000)
    parts = [block(plan, [(1, i, v) for i, v in enumerate(values) if i % 4 == p]) for p in range(4)]
    found = [row["s"] for row in results(plan, parts)]
    exact = [math.fsum(values[: i + 1]) for i in range(0, 20_000, 997)]
    assert found[::997] == pytest.approx(exact, abs=1e-6)
