"""When a group of queries stops paying, by what it took and what its members got."""

from __future__ import annotations

import pytest

from anabranch.adapt.sharing.group_worth import PATIENCE, GroupMeasure, GroupVotes, query_s

FIXED_S = query_s(sites=2, slots=2)
WASTE = GroupMeasure(members=3, references=2, results=100_000, given=300, seconds=0.5)
USED = GroupMeasure(members=3, references=2, results=100_000, given=150_000, seconds=0.5)


def after(*measures: GroupMeasure) -> GroupVotes:
    votes = GroupVotes()
    for measure in measures:
        votes = votes.after({"g": measure}, fixed_s=FIXED_S)
    return votes


def test_a_group_whose_results_nobody_gets_is_dissolved_after_some_batches() -> None:
    assert after(*[WASTE] * (PATIENCE - 1)).dissolved() == ()
    assert after(*[WASTE] * PATIENCE).dissolved() == ("g",)


def test_one_batch_in_which_it_pays_begins_the_count_anew() -> None:
    assert after(*[WASTE] * (PATIENCE - 1), USED, *[WASTE] * (PATIENCE - 1)).dissolved() == ()


def test_batches_without_results_tell_nothing() -> None:
    silent = GroupMeasure(members=3, references=2, results=0, given=0, seconds=0.5)
    assert after(*[WASTE] * (PATIENCE - 1), silent, WASTE).dissolved() == ("g",)
    assert after(*[silent] * 100).dissolved() == ()


@pytest.mark.parametrize(
    "measure",
    [
        GroupMeasure(3, 2, 100_000, 300, 0.001),  # too little to matter
        GroupMeasure(1_000, 2, 100_000, 300, 0.5),  # a thousand queries cost more than a wide join
        GroupMeasure(3, 2, 100_000, 60_000, 0.5),  # a fifth of the results each
        GroupMeasure(3, 2, 100_000, 300, 0.5, is_open=True),  # asked for
        GroupMeasure(30, 2, 60_000, 370_000, 0.068, 0.064),  # as measured, see docs/sharing.md
    ],
)
def test_groups_that_save_something_stay(measure: GroupMeasure) -> None:
    assert after(*[measure] * 50).dissolved() == ()


def test_a_group_whose_splitting_costs_more_than_joins_is_dissolved() -> None:
    measured = GroupMeasure(3, 2, 200_000, 350_000, 0.118, 0.108)  # see docs/sharing.md
    assert after(*[measured] * PATIENCE).dissolved() == ("g",)
