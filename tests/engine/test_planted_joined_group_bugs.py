"""Bugs planted on purpose into groups of join results: the restless sessions must catch every one."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import Any
from unittest import mock

import numpy as np
import pytest

from anabranch.engine.step.times import finality
from anabranch.engine.task.track_run import TrackRun
from anabranch.operators import kept_states, plan_operator
from anabranch.operators.group import alive_results, window_aggregate, window_distinct
from anabranch.plan import inputs as layout
from anabranch.plan.nodes import JoinNode
from tests.support.planted import assert_caught_by_seeds, each_change
from tests.support.restless_groups import check_restless_groups

ENOUGH = 150
Planted = AbstractContextManager[Any]


def a_result_is_gone_at_its_deadline() -> Planted:
    real = alive_results._by_deadline

    def earlier(block: Any) -> Any:
        rows = real(block)
        times = rows.batch.column("ts").to_numpy() - 1
        names = rows.batch.schema.names
        columns = [times if n == "ts" else rows.batch.column(n) for n in names]
        return type(rows)(alive_results.pa.record_batch(columns, names=names))

    return mock.patch.object(alive_results, "_by_deadline", earlier)


def a_result_outlives_its_deadline_when_it_is_compared() -> Planted:
    return mock.patch.object(window_distinct, "none_before", window_distinct.alone)


def results_are_forgotten_one_unit_early() -> Planted:
    real = kept_states.GroupedResults.horizon
    return mock.patch.object(kept_states.GroupedResults, "horizon", lambda *given: real(*given) + 1)


def only_the_first_stream_makes_results_final() -> Planted:
    return mock.patch.object(finality, "_streams", lambda plan: {plan.query.refs[0].stream})


def a_track_that_ends_keeps_its_results_for_itself() -> Planted:
    real = plan_operator.OPERATORS[JoinNode]

    def forgetful(plan: Any, given: Any) -> Any:
        join: Any = real(plan, given)
        if given.role is plan_operator.Role.ENDS:
            run = join.run
            join.run = lambda: (run(), join.kept.pop(plan.window.state, None))
        return join

    return mock.patch.dict(plan_operator.OPERATORS, {JoinNode: forgetful})


def tracks_that_end_answer_too() -> Planted:
    real = TrackRun._answer_joined

    def answer(self: TrackRun, writer: Any) -> None:
        work, self._work = self._work, replace(self._work, until=None)
        real(self, writer)
        self._work = work

    return mock.patch.object(TrackRun, "_answer_joined", answer)


def groups_are_torn_between_the_partitions_of_the_join() -> Planted:
    real = layout._routing
    return mock.patch.object(layout, "_routing", lambda *given: (real(*given)[0], False))


def equal_hashes_are_taken_for_equal_groups() -> Planted:
    none = np.empty(0, dtype=np.int64)
    return mock.patch.object(window_aggregate, "shared_hashes", return_value=none)


BUGS: list[Callable[[], Planted]] = [
    a_result_is_gone_at_its_deadline,
    a_result_outlives_its_deadline_when_it_is_compared,
    results_are_forgotten_one_unit_early,
    only_the_first_stream_makes_results_final,
    a_track_that_ends_keeps_its_results_for_itself,
    tracks_that_end_answer_too,
    groups_are_torn_between_the_partitions_of_the_join,
    equal_hashes_are_taken_for_equal_groups,
]


@pytest.mark.parametrize("bug", each_change(BUGS))
def test_restless_sessions_catch_a_planted_bug_above_a_join(bug: Callable[[], Planted]) -> None:
    assert_caught_by_seeds(bug, range(ENOUGH), check_restless_groups)
