"""Bugs planted on purpose into windows of GROUP BY: the oracle must catch every one."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import Any
from unittest import mock

import numpy as np
import pytest

from anabranch.engine.step import task_plan
from anabranch.engine.step.manifests import retention
from anabranch.engine.step.times import finality
from anabranch.operators.group.final_rows import Emission
from anabranch.operators.group.folds import row_aggregates
from anabranch.operators.group.windows import aligned_windows, grouped_windows, session_windows, window_rows
from anabranch.plan.logical import GroupWindow
from tests.support.generated_aggregates import check_aggregates
from tests.support.generated_windows import window_cases
from tests.support.planted import assert_caught, each_change
from tests.support.small_budgets import budgeted, check_budgeted

ENOUGH = 400
Planted = AbstractContextManager[Any]
NONE = np.empty(0, dtype=np.int64)


def a_window_is_final_one_unit_early() -> Planted:
    real = task_plan.emissions_of

    def early(*given: Any) -> dict[str, Emission]:
        return {name: replace(e, until=e.until + 1) for name, e in real(*given).items()}

    return mock.patch.object(task_plan, "emissions_of", early)


def rows_of_windows_expire_one_unit_early() -> Planted:
    real = retention.may_drop
    return mock.patch.object(retention, "may_drop", lambda meta, horizon: real(meta, horizon + 1))


def equal_hashes_are_taken_for_equal_keys_when_rows_are_kept() -> Planted:
    return mock.patch.object(window_rows, "needs_no_proof", return_value=True)


def equal_hashes_are_taken_for_equal_keys_when_windows_are_answered() -> Planted:
    return mock.patch.object(grouped_windows, "mixed_hashes", return_value=NONE)


def a_window_holds_the_row_at_its_end() -> Planted:
    real = aligned_windows.window_bounds
    return mock.patch.object(
        aligned_windows, "window_bounds", lambda rows, last, **more: real(rows, last=last + 1, **more)
    )


def a_session_that_goes_on_forgets_its_first_rows() -> Planted:
    real = session_windows.SessionWindows._carried

    def nothing(self: Any, rows: Any, which: Any, deadlines: Any) -> Any:
        return real(self, rows, np.zeros_like(which), deadlines)

    return mock.patch.object(session_windows.SessionWindows, "_carried", nothing)


def a_row_exactly_the_gap_later_begins_a_session() -> Planted:
    real = GroupWindow.last_instant

    def shorter(self: GroupWindow, time: Any) -> Any:
        return real(self, time) - 1 if self.session else real(self, time)

    return mock.patch.object(GroupWindow, "last_instant", shorter)


def windows_end_with_the_newest_row_at_the_end_of_input() -> Planted:
    return mock.patch.object(
        finality,
        "_last_instant",
        lambda plan, newest: max((t for t in newest.values() if t is not None), default=None),
    )


def every_site_answers_for_all_windows() -> Planted:
    real = aligned_windows.final_rows
    return mock.patch.object(
        aligned_windows, "final_rows", lambda blocks, e, owned: real(blocks, e, np.ones_like(owned))
    )


def null_counts_as_a_distinct_value() -> Planted:
    def all_known(contents: Any, name: str) -> Any:
        codes = row_aggregates._codes(contents.rows, name)
        return contents.window, codes[contents.position], contents.position

    return mock.patch.object(row_aggregates, "_known", all_known)


BUGS: list[Callable[[], Planted]] = [
    a_window_is_final_one_unit_early,
    rows_of_windows_expire_one_unit_early,
    equal_hashes_are_taken_for_equal_keys_when_rows_are_kept,
    equal_hashes_are_taken_for_equal_keys_when_windows_are_answered,
    a_window_holds_the_row_at_its_end,
    a_session_that_goes_on_forgets_its_first_rows,
    a_row_exactly_the_gap_later_begins_a_session,
    windows_end_with_the_newest_row_at_the_end_of_input,
    every_site_answers_for_all_windows,
    null_counts_as_a_distinct_value,
]


@pytest.mark.parametrize("bug", each_change(BUGS, rare=[a_window_is_final_one_unit_early]))
def test_the_oracle_catches_a_planted_bug_in_windows(bug: Callable[[], Planted]) -> None:
    assert_caught(bug, window_cases(), check_aggregates, enough=ENOUGH)


@pytest.mark.slow
@pytest.mark.parametrize("operator", [aligned_windows.AlignedWindows, session_windows.SessionWindows])
def test_the_oracle_catches_partitions_that_answer_twice_under_a_budget(operator: type[Any]) -> None:
    real = operator.run

    def of_all(self: Any) -> None:
        self._emission = replace(self._emission, ahead={})
        real(self)

    def partitions_answer_twice() -> Planted:
        return mock.patch.object(operator, "run", of_all)

    assert_caught(partitions_answer_twice, budgeted(window_cases()), check_budgeted, enough=ENOUGH)
