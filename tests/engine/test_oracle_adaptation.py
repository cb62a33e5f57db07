"""The result is the same as if nothing had been adapted.

Generated sessions, as in `test_oracle_generated.py`, while at every boundary partitions move, sites come
and go, partitions are spilled and rows wait, at random.
"""

from __future__ import annotations

import pytest
from hypothesis import Phase as Stage
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.generated import Case, cases
from tests.support.oracle_check import check_case
from tests.support.restless import RestlessDecider

FIND_AND_SHRINK = (Stage.explicit, Stage.reuse, Stage.generate, Stage.shrink)


@settings(max_examples=50, phases=FIND_AND_SHRINK)
@given(cases(), st.integers(0, 2**32))
def test_moves_spills_budgets_and_rescales_at_every_boundary_change_no_result(case: Case, seed: int) -> None:
    check_case(case, RestlessDecider(seed))


@pytest.mark.slow
@settings(max_examples=3_000, phases=FIND_AND_SHRINK)
@given(cases(), st.integers(0, 2**32))
def test_thousands_of_restless_sessions_give_what_the_oracle_gives(case: Case, seed: int) -> None:
    check_case(case, RestlessDecider(seed))
