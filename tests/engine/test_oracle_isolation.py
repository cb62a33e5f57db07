"""Sites that share nothing give what sites that share their blocks give.

The restless sessions of `test_oracle_adaptation.py` with `isolation = 'per_site'`: whatever moves is
copied in the next batch, also when a restart, another move or a change of plan comes first.
"""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import Phase as Stage
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.generated import Case, cases
from tests.support.oracle_check import check_case
from tests.support.restless import RestlessDecider

FIND_AND_SHRINK = (Stage.explicit, Stage.reuse, Stage.generate, Stage.shrink)


@settings(max_examples=25, phases=FIND_AND_SHRINK)
@given(cases(), st.integers(0, 2**32))
def test_copies_at_every_boundary_change_no_result(case: Case, seed: int) -> None:
    check_case(isolated(case), RestlessDecider(seed))


@pytest.mark.slow
@settings(max_examples=3_000, phases=FIND_AND_SHRINK)
@given(cases(), st.integers(0, 2**32))
def test_thousands_of_isolated_sessions_give_what_the_oracle_gives(case: Case, seed: int) -> None:
    check_case(isolated(case), RestlessDecider(seed))


def isolated(case: Case) -> Case:
    phases = (replace(p, settings=replace(p.settings, isolation="per_site")) for p in case.phases)
    return replace(case, phases=tuple(phases))
