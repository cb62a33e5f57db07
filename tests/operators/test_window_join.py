"""A plan on the rows of one batch, without state files: pieces, quota, theta joins."""

from __future__ import annotations

from collections.abc import Iterator
from unittest import mock

import pyarrow as pa
import pytest

from anabranch.operators.join import join_evaluator
from anabranch.operators.join.sources.row_source import SiteRows
from anabranch.operators.join.sources.tree_rows import TreeRows
from anabranch.operators.join.window_join import WindowJoin
from anabranch.operators.rows.row_set import RowSet
from anabranch.operators.work_memory import QuotaExceeded
from anabranch.plan.inputs import HASH, TIME
from anabranch.plan.local_plan import LocalPlan
from anabranch.plan.nodes import LeafNode
from tests.plan.queries import plan_of, query

THETA = "a.v < b.v"
EQUI = "a.k = b.k"


@pytest.fixture(params=[1, 3, 1 << 20], ids=lambda rows: f"flush={rows}")
def flushed(request: pytest.FixtureRequest) -> Iterator[None]:
    with mock.patch.object(join_evaluator, "FLUSH_ROWS", request.param):
        yield


def leaf_rows(leaf: LeafNode, times: list[int]) -> RowSet:
    """Rows whose every number is their position, with one routing hash."""
    numbers = pa.array(range(len(times)), pa.int64())
    columns = {HASH: pa.array([5] * len(times), pa.int64()), TIME: pa.array(times, pa.int64())}
    for physical in leaf.names.values():
        if physical not in columns:
            columns[physical] = numbers.cast(pa.int32()) if physical.endswith("int") else numbers
    return RowSet.sorted(pa.RecordBatch.from_pydict(columns), TIME)


def run(
    plan: LocalPlan, new: dict[str, list[int]], old: dict[str, list[int]] | None = None, quota: int = 10_000
) -> tuple[list[pa.Table], WindowJoin]:
    leaves = {n.aliases[0]: n for n in plan.nodes() if isinstance(n, LeafNode)}
    results: list[pa.Table] = []
    rows = SiteRows(
        {leaves[a].input: leaf_rows(leaves[a], t) for a, t in new.items()},
        {leaves[a].state: [leaf_rows(leaves[a], t)] for a, t in (old or {}).items()},
    )
    join = WindowJoin(
        plan,
        plan.root,
        lambda evaluator: TreeRows(evaluator, rows),
        emit=results.append,
        quota=quota,
    )
    join.run()
    return results, join


@pytest.mark.usefixtures("flushed")
def test_old_rows_do_not_meet_old_rows_again() -> None:
    plan = plan_of(query(EQUI, number=2))
    results, _ = run(plan, {"a": [0, 1]}, {"a": [0, 0, 0], "b": [0]})
    assert sum(t.num_rows for t in results) == 2
    assert not run(plan, {}, {"a": [0], "b": [0]})[0]


@pytest.mark.usefixtures("flushed")
@pytest.mark.parametrize("where", [EQUI, THETA])
def test_results_may_be_constants_only(where: str) -> None:
    plan = plan_of(query(f"{where} AND a.v <= b.v", select="1 AS one, 'x' AS x", number=2))
    results, _ = run(plan, {"a": [0, 1, 2], "b": [0, 1, 2]})
    found = pa.concat_tables(results).to_pylist()
    assert found == [{"one": 1, "x": "x"}] * (6 if where == EQUI else 3)


@pytest.mark.usefixtures("flushed")
def test_a_theta_join_computes_while_it_still_finds_pairs() -> None:
    plan = plan_of(query(THETA, select="a.v * b.v AS product", number=2))
    results, _ = run(plan, {"a": [0] * 30, "b": [0] * 30})
    expected = sorted(x * y for x in range(30) for y in range(30) if x < y)
    assert sorted(pa.concat_tables(results).column("product").to_pylist()) == expected


@pytest.mark.parametrize("where", [EQUI, THETA])
def test_the_quota_counts_pairs_and_names_the_query(where: str) -> None:
    plan = plan_of(query(where, number=2))
    with pytest.raises(QuotaExceeded, match="'q' matched more than 5 pairs"):
        run(plan, {"a": [0] * 4, "b": [0] * 4}, quota=5)


@pytest.mark.parametrize("text", ["((a b) c)", "(a (b c))", "((a c) b)"])
def test_an_intermediate_row_remembers_its_newest_time_and_its_deadline(text: str) -> None:
    """Windows of 1, 2 and 3 seconds: the deadline is the earliest end of a window."""
    plan = plan_of(query("a.k = b.k AND b.k = c.k"), text)
    times = {"a": [0], "b": [500_000], "c": [900_000]}
    results, join = run(plan, times)
    assert sum(t.num_rows for t in results) == 1
    ((kept,),) = join.kept.values()
    ends = {"a": 1_000_000, "b": 2_500_000, "c": 3_900_000}
    inner = text.split("(")[-1].split(")")[0].split()
    assert kept.column("max_ts").to_pylist() == [max(times[a][0] for a in inner)]
    assert kept.column("deadline").to_pylist() == [min(ends[a] for a in inner)]
