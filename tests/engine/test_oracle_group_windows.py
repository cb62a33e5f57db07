"""Tumbling, hopping and session windows give what DuckDB gives over the accepted rows."""

from __future__ import annotations

import pytest
from hypothesis import Phase as Stage
from hypothesis import given, settings

from tests.support.generated_aggregates import AggregateCase, check_aggregates
from tests.support.generated_windows import joined_window_cases, window_cases
from tests.support.small_budgets import Budgeted, budgeted, check_budgeted

QUICK = 60
LONG = 5_000
FIND_AND_SHRINK = (Stage.explicit, Stage.reuse, Stage.generate, Stage.shrink)  # explaining takes minutes


@settings(max_examples=QUICK, phases=FIND_AND_SHRINK)
@given(window_cases())
def test_windows_of_a_stream_are_what_the_oracle_gives_over_the_accepted_rows(case: AggregateCase) -> None:
    check_aggregates(case)


@settings(max_examples=QUICK // 2, phases=FIND_AND_SHRINK)
@given(joined_window_cases())
def test_windows_of_join_results_are_what_the_oracle_gives_over_accepted_rows(
    case: AggregateCase,
) -> None:
    check_aggregates(case)


@settings(max_examples=QUICK // 2, phases=FIND_AND_SHRINK)
@given(budgeted(window_cases() | joined_window_cases()))
def test_windows_do_not_depend_on_the_memory_budget(case: Budgeted) -> None:
    check_budgeted(case)


@pytest.mark.slow
@settings(max_examples=LONG, phases=FIND_AND_SHRINK)
@given(window_cases() | joined_window_cases())
def test_thousands_of_sessions_with_windows_give_what_the_oracle_gives(case: AggregateCase) -> None:
    check_aggregates(case)


@pytest.mark.slow
@settings(max_examples=LONG // 2, phases=FIND_AND_SHRINK)
@given(budgeted(window_cases() | joined_window_cases()))
def test_thousands_of_sessions_with_windows_do_not_depend_on_the_memory_budget(case: Budgeted) -> None:
    check_budgeted(case)
