"""What answering holds beside the rows is bounded by what the budget is charged for it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from anabranch.exchange.address import PARTITIONS
from anabranch.language.flow import bind_query
from anabranch.operators.group.final_rows import Emission
from anabranch.operators.group.folds.range_fold import Folded
from anabranch.operators.group.folds.window_bounds import Runs
from anabranch.operators.group.held_bytes import held_bytes
from anabranch.operators.group.window_aggregate import WindowAggregate
from anabranch.operators.rows.row_set import RowSet
from anabranch.plan.aggregate import WindowNode
from anabranch.plan.inputs import HASH, TIME, layout_of
from anabranch.plan.local_plan import LocalPlan, compile_plan
from anabranch.plan.logical import Column, Stream
from anabranch.plan.tree import default_plan

ROWS = 5_000
STREAM = Stream(
    "s", tuple(Column(n, k) for n, k in (("k", "bigint"), ("x", "bigint"), ("y", "double"))), "ts", 0
)


def plan_of(text: str) -> LocalPlan:
    columns = (*STREAM.columns, Column("ts", "timestamp"))
    stream = Stream("s", columns, "ts", 0)
    query = bind_query("q", text, {"s": stream})
    layout = layout_of([query], {"q": 0})
    return compile_plan(layout, layout.queries[0], default_plan(layout.queries[0].graph))


def node_of(text: str) -> WindowNode:
    node = plan_of(text).window
    assert node is not None
    return node


def measured(value: Any) -> int:
    """Bytes of arrays that are kept with a set of rows."""
    if isinstance(value, np.ndarray):
        return int(value.nbytes)
    if isinstance(value, Folded):
        return measured([value._leaves, value._suffixes, value._tree])
    if isinstance(value, Runs):
        return measured([value.hashes, value.starts])
    if isinstance(value, list | tuple):
        return sum(measured(item) for item in value)
    if hasattr(value, "positions"):
        return measured(value.positions)
    return 0


@pytest.mark.parametrize("groups", [1, 70, ROWS], ids=["one group", "some groups", "a group per row"])
@pytest.mark.parametrize(
    "aggregates", ["COUNT(*)", "SUM(x)", "AVG(y)", "MAX(x), MIN(y)", "STDDEV(y), SUM(x), AVG(y), MAX(x)"]
)
def test_summaries_take_no_more_than_they_are_charged_for(aggregates: str, groups: int) -> None:
    plan = plan_of(f"SELECT k, {aggregates} FROM s [RANGE 900 MICROSECONDS] GROUP BY k")
    node = plan.window
    assert node is not None
    rng = np.random.default_rng(0)
    keys = rng.permutation(np.arange(ROWS) % groups)
    columns: dict[str, Any] = {
        HASH: keys << 40,
        TIME: rng.integers(0, 2_000, ROWS),
        node.keys[0]: keys,
    }
    for aggregate in node.aggregates:
        if aggregate.column is not None:
            values = rng.normal(size=ROWS) if aggregate.argument_type == "double" else keys
            columns[aggregate.column] = values
    rows = RowSet.sorted(pa.RecordBatch.from_pydict(columns), TIME)
    WindowAggregate(
        plan.query,
        node,
        blocks=[rows],
        emission=Emission(0, 1_500),
        owned=np.ones(PARTITIONS, dtype=bool),
        emit=lambda table: None,
        quota=1 << 40,
    ).run()
    held = sum(measured(value) for value in rows._derived.values())
    assert 0 < held <= held_bytes(node) * ROWS + 100


def test_a_query_with_more_summaries_is_charged_more() -> None:
    count, variance = (
        node_of(f"SELECT k, {a} FROM s [RANGE 9 SECONDS] GROUP BY k") for a in ("COUNT(*)", "STDDEV(y)")
    )
    assert held_bytes(count) < held_bytes(variance)
