"""Rows that the skew buffer puts off change no result: it is on in every session unless it is turned off."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import Any
from unittest import mock

import pytest
from hypothesis import Phase as Stage
from hypothesis import given, settings

from anabranch.adapt.boundary.boundary_state import BoundaryState
from anabranch.adapt.boundary.decisions import Decisions
from anabranch.adapt.boundary.observed import Observed
from anabranch.engine.step import task_plan
from anabranch.engine.task import slot_run
from tests.support.eager_buffer import CountingDecider, eager_buffer
from tests.support.generated import Case, cases
from tests.support.generated_aggregates import AggregateCase, aggregate_cases, check_aggregates
from tests.support.oracle_check import check_case
from tests.support.planted import assert_caught_by_seeds
from tests.support.restless_session import session_of

FIND_AND_SHRINK = (Stage.explicit, Stage.reuse, Stage.generate, Stage.shrink)
ENOUGH = 60
Planted = AbstractContextManager[Any]


def still(seed: int) -> Case:
    """A dense session whose partitions stay where they are, so that only the buffer answers a skew."""
    case = session_of(seed)
    phases = (replace(p, settings=replace(p.settings, rebalance="off")) for p in case.phases)
    return replace(case, phases=tuple(phases))


@settings(max_examples=20, phases=FIND_AND_SHRINK)
@given(cases())
def test_rows_put_off_change_no_result(case: Case) -> None:
    with eager_buffer() as decider:
        check_case(case, decider)


@settings(max_examples=12, phases=FIND_AND_SHRINK)
@given(aggregate_cases())
def test_rows_put_off_change_no_aggregate(case: AggregateCase) -> None:
    with eager_buffer() as decider:
        check_aggregates(replace(case, seed=None), decider=decider)


@pytest.mark.slow
@settings(max_examples=3_000, phases=FIND_AND_SHRINK)
@given(cases())
def test_thousands_of_sessions_with_rows_put_off_agree_with_the_oracle(case: Case) -> None:
    with eager_buffer() as decider:
        check_case(case, decider)


def test_the_sessions_do_put_rows_off() -> None:
    class Watching(CountingDecider):
        def decide(self, state: BoundaryState, observed: Observed) -> tuple[BoundaryState, Decisions]:
            waited.append(int(observed.pending_rows.sum()))
            return super().decide(state, observed)

    waited: list[int] = []
    with eager_buffer():
        for seed in range(5):
            check_case(still(seed), Watching())
    assert sum(rows > 0 for rows in waited) > 10


def a_row_that_waits_is_forgotten() -> Planted:
    real = slot_run.admit

    def admit(*rows: Any, **how: Any) -> Any:
        now, later = real(*rows, **how)
        return now, {source: batch[1:] for source, batch in later.items() if batch.num_rows > 1}

    return mock.patch.object(slot_run, "admit", admit)


def a_row_that_waits_enters_as_well() -> Planted:
    real = slot_run.admit

    def admit(new: Any, waited: Any, **how: Any) -> Any:
        _, later = real(new, waited, **how)
        everything = replace(how["admission"], row_budgets={}, spilled=frozenset())
        return real(new, waited, **how | {"admission": everything})[0], later

    return mock.patch.object(slot_run, "admit", admit)


def rows_that_wait_hold_nothing_back() -> Planted:
    return mock.patch.multiple(task_plan, held_back=lambda watermarks, oldest: watermarks)


def what_waited_is_left_behind_when_no_site_has_a_budget() -> Planted:
    real = slot_run._SlotRun._admit

    def admit(self: Any, new: Any, old: Any) -> Any:
        return (new, {}) if self.task.admission.is_open else real(self, new, old)

    return mock.patch.object(slot_run._SlotRun, "_admit", admit)


BUGS: list[Callable[[], Planted]] = [
    a_row_that_waits_is_forgotten,
    a_row_that_waits_enters_as_well,
    rows_that_wait_hold_nothing_back,
    what_waited_is_left_behind_when_no_site_has_a_budget,
]


@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: bug.__name__)
def test_sessions_with_rows_put_off_catch_a_planted_bug(bug: Callable[[], Planted]) -> None:
    def check(seed: int) -> None:
        with eager_buffer() as decider:
            check_case(still(seed), decider)

    assert_caught_by_seeds(bug, range(ENOUGH), check)
