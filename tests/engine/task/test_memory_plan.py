"""What a budget means depends on who reads a state: joins, aggregates, or both."""

from __future__ import annotations

from anabranch.engine.settings import MEBIBYTE
from anabranch.engine.task.sites.memory_plan import MERGE_COPIES, memory_plan, owing_partitions
from anabranch.queries.reconcile import reconcile
from anabranch.state import BlockMeta
from tests.engine.directed_runs import STREAMS
from tests.engine.nasty_runs import bind

PAIRS = "SELECT a.id, b.id AS o FROM a [RANGE 9 SECONDS], b [RANGE 9 SECONDS] WHERE a.k = b.k"
COUNTS = "SELECT k, COUNT(*) AS n FROM c [RANGE 9 SECONDS] GROUP BY k"
BUDGET = 8 * MEBIBYTE


def test_states_of_joins_and_of_aggregates_are_told_apart() -> None:
    catalog = reconcile(STREAMS, bind(STREAMS, pairs=PAIRS, counts=COUNTS), None)
    plan = memory_plan(catalog.plans, BUDGET)
    assert len(plan.joined) == 2
    assert len(plan.grouped) == 1
    assert not plan.joined & plan.grouped
    (state,) = plan.grouped
    assert plan.most_to_merge(state) == 8 * MEBIBYTE // MERGE_COPIES
    assert plan.most_to_merge(next(iter(plan.joined))) == 8 * MEBIBYTE


def test_a_state_that_a_join_reads_too_is_the_joins() -> None:
    queries = bind(STREAMS, pairs=PAIRS, counts=COUNTS.replace("FROM c", "FROM a"))
    plan = memory_plan(reconcile(STREAMS, queries, None).plans, BUDGET)
    assert not plan.grouped & plan.joined


def test_spilled_partitions_owe_only_where_they_have_rows() -> None:
    plans = reconcile(STREAMS, bind(STREAMS, counts=COUNTS), None).plans
    (state,) = memory_plan(plans, BUDGET).grouped
    block = BlockMeta("x", state, 0, 0, 0, 5, 10, "", 0, 0, 0, ((1, 2), (7, 3)))
    assert owing_partitions(plans, [block], frozenset({7, 9})) == {state: frozenset({7})}
    assert owing_partitions(plans, [block], frozenset()) == {}


def test_without_a_budget_anything_may_be_merged() -> None:
    catalog = reconcile(STREAMS, bind(STREAMS, counts=COUNTS), None)
    plan = memory_plan(catalog.plans, None)
    assert plan.most_to_merge(next(iter(plan.grouped))) is None
