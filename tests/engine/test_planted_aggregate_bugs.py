"""Bugs planted on purpose into aggregates and DISTINCT: the oracle must catch every one."""

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
from anabranch.engine.task.arrival import arrivals
from anabranch.operators.group import (
    gathered_groups,
    newest_rows,
    window_aggregate,
    window_distinct,
    window_grouping,
)
from anabranch.operators.group.final_rows import Emission
from anabranch.queries.reconcile import reconcile
from tests.support.generated_aggregates import aggregate_cases, check_aggregates
from tests.support.planted import assert_caught, each_change

ENOUGH = 400
Planted = AbstractContextManager[Any]
NONE = np.empty(0, dtype=np.int64)


def the_window_bound_is_left_out() -> Planted:
    real = window_aggregate.window_bounds
    return mock.patch.object(
        window_aggregate, "window_bounds", lambda block, first, **more: real(block, first=first + 1, **more)
    )


def an_equal_row_just_outside_the_window_hides_another() -> Planted:
    real = window_distinct.window_bounds
    return mock.patch.object(
        window_distinct, "window_bounds", lambda block, first, **more: real(block, first=first - 1, **more)
    )


def the_row_at_the_watermark_is_final() -> Planted:
    real = task_plan.emissions_of

    def early(*given: Any) -> dict[str, Emission]:
        return {name: replace(e, until=e.until + 1) for name, e in real(*given).items()}

    return mock.patch.object(task_plan, "emissions_of", early)


def rows_that_wait_do_not_hold_back_what_is_final() -> Planted:
    return mock.patch.object(task_plan, "held_back", lambda watermarks, oldest: watermarks)


def rows_expire_one_unit_early() -> Planted:
    real = retention.may_drop
    return mock.patch.object(retention, "may_drop", lambda meta, horizon: real(meta, horizon + 1))


def equal_hashes_are_taken_for_equal_keys() -> Planted:
    return mock.patch.multiple(window_aggregate, shared_hashes=lambda *_: NONE)


def null_is_taken_for_the_value_with_its_hash() -> Planted:
    return mock.patch.object(gathered_groups, "needs_no_proof", lambda block, node: node.proved)


def one_row_too_many_is_forgotten() -> Planted:
    real = newest_rows.keep_newest
    return mock.patch.object(
        newest_rows, "keep_newest", lambda r, trim: real(r, replace(trim, newest=max(trim.newest - 1, 0)))
    )


def rows_are_forgotten_before_they_are_final() -> Planted:
    real = newest_rows.keep_newest
    return mock.patch.object(
        newest_rows, "keep_newest", lambda r, trim: real(r, replace(trim, before=trim.before + 3))
    )


def every_site_emits_all_rows() -> Planted:
    real = window_grouping.final_rows

    def everywhere(blocks: Any, emission: Emission, owned: Any, **how: Any) -> Any:
        return real(blocks, emission, np.ones_like(owned), **how)

    return mock.patch.object(window_grouping, "final_rows", everywhere)


def arrival_breaks_ties_the_other_way_round() -> Planted:
    real = arrivals.Arrivals._sequence
    return mock.patch.object(arrivals.Arrivals, "_sequence", lambda self, order: real(self, -order))


def what_was_emitted_is_forgotten_at_a_restart() -> Planted:
    def forgetful(*given: Any, **more: Any) -> Any:
        found = reconcile(*given, **more)
        return replace(found, states=tuple(replace(s, emitted_us=None) for s in found.states))

    return mock.patch("anabranch.engine.local_driver.reconcile", forgetful)


BUGS: list[Callable[[], Planted]] = [
    the_window_bound_is_left_out,
    an_equal_row_just_outside_the_window_hides_another,
    the_row_at_the_watermark_is_final,
    rows_that_wait_do_not_hold_back_what_is_final,
    rows_expire_one_unit_early,
    equal_hashes_are_taken_for_equal_keys,
    null_is_taken_for_the_value_with_its_hash,
    one_row_too_many_is_forgotten,
    rows_are_forgotten_before_they_are_final,
    every_site_emits_all_rows,
    arrival_breaks_ties_the_other_way_round,
    what_was_emitted_is_forgotten_at_a_restart,
]


@pytest.mark.parametrize("bug", each_change(BUGS, rare=[rows_that_wait_do_not_hold_back_what_is_final]))
def test_the_oracle_catches_a_planted_bug_in_aggregates(bug: Callable[[], Planted]) -> None:
    assert_caught(bug, aggregate_cases(), check_aggregates, enough=ENOUGH)
