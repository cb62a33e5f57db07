"""Every generated session gives what DuckDB gives over the accepted rows: the heart of the tests."""

from __future__ import annotations

import pytest
from hypothesis import given, settings

from anabranch.testing.generated import Case, cases
from anabranch.testing.oracle_check import check_case


@settings(max_examples=240)
@given(cases())
def test_a_session_gives_what_the_oracle_gives_over_the_accepted_rows(case: Case) -> None:
    check_case(case)
