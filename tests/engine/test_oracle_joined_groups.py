"""Aggregates and DISTINCT above joins give what DuckDB gives over the accepted rows."""

from __future__ import annotations

import pytest
from hypothesis import Phase as Stage
from hypothesis import given, settings

from tests.support.generated_aggregates import AggregateCase, check_aggregates
from tests.support.generated_joined_groups import joined_group_cases
from tests.support.restless_groups import check_restless_groups

QUICK = 60
LONG = 5_000
FIND_AND_SHRINK = (Stage.explicit, Stage.reuse, Stage.generate, Stage.shrink)  # explaining takes minutes


@settings(max_examples=QUICK, phases=FIND_AND_SHRINK)
@given(joined_group_cases())
def test_groups_of_join_results_are_what_the_oracle_gives_over_the_accepted_rows(case: AggregateCase) -> None:
    check_aggregates(case)


@pytest.mark.slow
@settings(max_examples=LONG, phases=FIND_AND_SHRINK)
@given(joined_group_cases())
def test_thousands_of_sessions_with_groups_of_join_results_agree_with_the_oracle(case: AggregateCase) -> None:
    check_aggregates(case)


@pytest.mark.parametrize("isolation", ["shared", "per_site"])
def test_migrations_moves_and_rescales_below_change_no_group(isolation: str) -> None:
    for seed in range(12):
        check_restless_groups(seed, isolation=isolation)


@pytest.mark.slow
@pytest.mark.parametrize("isolation", ["shared", "per_site"])
def test_a_thousand_restless_sessions_change_no_group(isolation: str) -> None:
    for seed in range(12, 1_000):
        check_restless_groups(seed, isolation=isolation)
