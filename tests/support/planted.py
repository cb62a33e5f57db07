"""The test of the tests: how many sessions it takes until a planted bug is noticed.

A bug counts as caught where the comparison with the oracle finds other rows, and the same session without the
bug finds the right ones. A session that only crashes has noticed nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from contextlib import AbstractContextManager, suppress
from typing import Any, TypeVar

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis.strategies import SearchStrategy

from anabranch.testing.oracle_compare import DifferentRows

Case = TypeVar("Case")
Bug = Callable[[], AbstractContextManager[Any]]
"""What is wrong while it lasts."""


class _Caught(Exception):
    """Ends the search."""


def each_change(bugs: Sequence[Bug], *, rare: Collection[Bug] = ()) -> list[Any]:
    """The bugs as parameters of a test: a third is planted for every change, the others in slow tests.

    Parameters
    ----------
    rare
        Bugs that are noticed late: planted in slow tests alone.
    """
    return [
        pytest.param(bug, id=_name(bug), marks=[] if i % 3 == 0 and bug not in rare else pytest.mark.slow)
        for i, bug in enumerate(bugs)
    ]


def assert_caught(
    bug: Bug, cases: SearchStrategy[Case], check: Callable[[Case], None], *, enough: int
) -> None:
    """Fail unless one of `enough` generated sessions catches a bug."""
    tried = 0

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
        nonlocal tried
        tried += 1
        if _is_caught(bug, check, case):
            raise _Caught

    with suppress(_Caught):
        look()
        raise AssertionError(f"{tried} sessions did not notice {_name(bug)}")
    print(f"{_name(bug)}: caught by session {tried}")


def assert_caught_by_seeds(bug: Bug, seeds: Iterable[int], check: Callable[[int], None]) -> None:
    """Fail unless the session of one of the seeds catches a bug."""
    for seed in seeds:
        if _is_caught(bug, check, seed):
            print(f"{_name(bug)}: caught by the session of seed {seed}")
            return
    raise AssertionError(f"no session noticed {_name(bug)}")


def _is_caught(bug: Bug, check: Callable[[Case], None], case: Case) -> bool:
    with bug():
        try:
            check(case)
        except DifferentRows:
            pass
        except Exception as error:
            print(f"{_name(bug)}: not a difference, a crash: {error!r}"[:200])
            return False
        else:
            return False
    check(case)  # the same session without the bug: it fails here if the difference has another cause
    return True


def _name(bug: Bug) -> str:
    return getattr(bug, "__name__", repr(bug))
