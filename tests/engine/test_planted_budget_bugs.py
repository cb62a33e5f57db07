"""Bugs planted on purpose into what a memory budget does to aggregates: the oracle must catch every one."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import Any
from unittest import mock

import numpy as np
import pytest

from anabranch.engine.task import slot_run
from anabranch.engine.task.blocks import block_slices
from anabranch.operators.group import window_grouping
from anabranch.operators.group.final_rows import Emission
from anabranch.queries.catalog import Catalog
from tests.support.generated_aggregates import aggregate_cases
from tests.support.planted import assert_caught, each_change
from tests.support.small_budgets import budgeted, check_budgeted

ENOUGH = 800
Planted = AbstractContextManager[Any]


def what_partitions_on_disk_owe_is_forgotten() -> Planted:
    return mock.patch.object(Emission, "after", lambda self: (self.until, {}))


def partitions_that_are_ahead_answer_again() -> Planted:
    real = window_grouping.final_rows

    def again(blocks: Any, emission: Emission, owned: Any, **how: Any) -> Any:
        return real(blocks, replace(emission, ahead={}), owned, **how)

    return mock.patch.object(window_grouping, "final_rows", again)


def rows_expire_with_the_partition_that_is_furthest_ahead() -> Planted:
    real = Catalog.emitted

    def furthest(self: Catalog) -> dict[str, int]:
        ahead = self.ahead()
        return {name: max([time, *ahead.get(name, {}).values()]) for name, time in real(self).items()}

    return mock.patch.object(Catalog, "emitted", furthest)


def a_slice_lacks_its_last_partition() -> Planted:
    real = block_slices.slice_block

    def short(block: Any, wanted: Any) -> Any:
        found = np.flatnonzero(wanted & (block.rows_of > 0))
        return real(block, np.isin(np.arange(256), found[:-1]))

    return mock.patch.object(slot_run, "slice_block", short)


def a_merger_loses_its_last_range_of_partitions() -> Planted:
    real = block_slices.ranges_within

    def all_but_one(*given: Any) -> Iterator[Any]:
        ranges = list(real(*given))
        yield from ranges[: max(1, len(ranges) - 1)]

    return mock.patch.object(slot_run, "ranges_within", all_but_one)


BUGS: list[Callable[[], Planted]] = [
    what_partitions_on_disk_owe_is_forgotten,
    partitions_that_are_ahead_answer_again,
    rows_expire_with_the_partition_that_is_furthest_ahead,
    a_slice_lacks_its_last_partition,
    a_merger_loses_its_last_range_of_partitions,
]


@pytest.mark.parametrize("bug", each_change(BUGS))
def test_the_oracle_catches_a_planted_bug_in_what_a_budget_does(bug: Callable[[], Planted]) -> None:
    assert_caught(bug, budgeted(aggregate_cases()), check_budgeted, enough=ENOUGH)
