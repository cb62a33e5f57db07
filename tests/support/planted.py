"""The test of the tests: how many generated sessions it takes until a planted bug is noticed."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import TypeVar

from hypothesis import HealthCheck, Phase, given, settings
from hypothesis.strategies import SearchStrategy

Case = TypeVar("Case")


class _Caught(Exception):
    """Ends the search."""


def sessions_until_caught(
    cases: SearchStrategy[Case], check: Callable[[Case], None], *, enough: int
) -> int | None:
    """Sessions tried until `check` raised AssertionError; None if it never did.

    Once is enough: whether a session that shows a bug shows it again may depend on how long sites took.
    """
    tried = 0
    caught: int | None = None

    @settings(
        max_examples=enough,
        derandomize=True,
        database=None,
        deadline=None,
        phases=(Phase.generate,),
        suppress_health_check=list(HealthCheck),
        report_multiple_bugs=False,
    )
    @given(cases)
    def look(case: Case) -> None:
        nonlocal tried, caught
        tried += 1
        if caught is None and _disagrees(check, case):
            caught = tried
        if caught is not None:
            raise _Caught

    with suppress(_Caught):
        look()
    return caught


def _disagrees(check: Callable[[Case], None], case: Case) -> bool:
    try:
        check(case)
    except AssertionError:
        return True
    return False
