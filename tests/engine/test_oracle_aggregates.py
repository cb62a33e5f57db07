"""Windowed aggregates and DISTINCT give what DuckDB's window functions give over the accepted rows."""

from __future__ import annotations

import pytest
from hypothesis import Phase as Stage
from hypothesis import given, settings

from tests.support.generated_aggregates import AggregateCase, aggregate_cases, check_aggregates

QUICK = 70
LONG = 5_000
FIND_AND_SHRINK = (Stage.explicit, Stage.reuse, Stage.generate, Stage.shrink)  # explaining takes minutes


@settings(max_examples=QUICK, phases=FIND_AND_SHRINK)
@given(aggregate_cases())
def test_aggregates_give_what_the_oracle_gives_over_the_accepted_rows(case: AggregateCase) -> None:
    check_aggregates(case)


@pytest.mark.slow
@settings(max_examples=LONG, phases=FIND_AND_SHRINK)
@given(aggregate_cases())
def test_thousands_of_sessions_with_aggregates_give_what_the_oracle_gives(case: AggregateCase) -> None:
    check_aggregates(case)
