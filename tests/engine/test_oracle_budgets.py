"""Aggregates and DISTINCT give what DuckDB gives, however small a memory budget is, however it changes."""

from __future__ import annotations

import pytest
from hypothesis import Phase as Stage
from hypothesis import given, settings

from tests.support.generated_aggregates import aggregate_cases
from tests.support.generated_joined_groups import joined_group_cases
from tests.support.small_budgets import Budgeted, budgeted, check_budgeted

QUICK = 50
LONG = 2_500
FIND_AND_SHRINK = (Stage.explicit, Stage.reuse, Stage.generate, Stage.shrink)  # explaining takes minutes


@settings(max_examples=QUICK, phases=FIND_AND_SHRINK)
@given(budgeted(aggregate_cases()))
def test_aggregates_of_a_stream_do_not_depend_on_the_memory_budget(case: Budgeted) -> None:
    check_budgeted(case)


@settings(max_examples=QUICK // 2, phases=FIND_AND_SHRINK)
@given(budgeted(joined_group_cases()))
def test_groups_of_join_results_do_not_depend_on_the_memory_budget(case: Budgeted) -> None:
    check_budgeted(case)


@pytest.mark.slow
@settings(max_examples=LONG, phases=FIND_AND_SHRINK)
@given(budgeted(aggregate_cases() | joined_group_cases()))
def test_thousands_of_sessions_do_not_depend_on_the_memory_budget(case: Budgeted) -> None:
    check_budgeted(case)
