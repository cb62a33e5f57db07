"""Partitions that have left a site by parallel track change plans with it, while their old rows end there."""

from __future__ import annotations

from collections.abc import Sequence
from unittest import mock

import pytest

from anabranch.exchange.address import PARTITIONS
from anabranch.operators.join.state_rebuild import RebuiltRows
from anabranch.plan.cost.migration_cost import Strategy
from anabranch.testing.oracle_compare import DifferentRows
from tests.engine.directed_runs import (
    AB_C,
    AB_CD,
    ABC_D,
    AC_BD,
    BC_A,
    BCD_A,
    MS,
    PT,
    TWO_SLOTS,
    Boundary,
    Told,
    check_directed,
    everywhere,
    joined,
    migration,
    steady_batches,
)

PROBES = "[a b c d, b c d a, c d a b, d a b c]"
BATCHES = steady_batches(9, keys=18, per_batch=28)
LEAVES, CHANGES = 1, 3
"""Boundaries at which partitions leave site 0, and at which it changes plans."""
SOME, ALL = range(64), range(PARTITIONS // 2)
"""Partitions of site 0."""


def drained(old: str, *plans: str, strategy: Strategy = MS, leaving: Sequence[int] = SOME) -> Told:
    """A site with one plan loses partitions, then changes to others, one after the other at once."""
    aliases = sorted(set(old) & set("abcd"))
    changes = tuple(migration(plan, strategy, site=0) for plan in plans)
    return check_directed(
        [joined(*aliases, window=45)],
        BATCHES,
        {
            0: everywhere(old, MS),
            LEAVES: Boundary(moves=dict.fromkeys(leaving, 1), rebalance=PT),
            CHANGES: Boundary(changes),
        },
        settings=TWO_SLOTS,
    )


@pytest.mark.parametrize(
    ("old", "new"),
    [
        pytest.param(AB_C, BC_A, id="three streams"),
        pytest.param(ABC_D, BCD_A, id="new rows kept apart in both"),
        pytest.param(AB_CD, AC_BD, id="bushy"),
        pytest.param(PROBES, ABC_D, id="from no states"),
    ],
)
def test_states_are_computed_and_the_results_stay_the_same(old: str, new: str) -> None:
    told = drained(old, new)
    assert {t.plan for t in told.ending(CHANGES - 1)} == {old}
    assert {t.plan for t in told.ending(CHANGES)} == {new}
    assert told.rebuilt[CHANGES + 1] > 0


def test_states_are_left_behind_for_a_plan_without() -> None:
    told = drained(ABC_D, PROBES)
    assert {t.plan for t in told.ending(CHANGES)} == {PROBES}
    assert told.rebuilt[CHANGES + 1] == 0


def test_a_plan_whose_states_have_other_rows_is_not_followed() -> None:
    """(a b) has rows that are new throughout in one of the plans only."""
    assert {t.plan for t in drained(AB_CD, ABC_D).ending(CHANGES)} == {AB_CD}


def test_a_site_does_not_compute_more_for_others_than_for_itself() -> None:
    assert {t.plan for t in drained(AB_C, BC_A, leaving=ALL).ending(CHANGES)} == {AB_C}


def test_a_site_that_changes_by_parallel_track_lets_what_drains_end_as_it_is() -> None:
    assert {t.plan for t in drained(AB_C, BC_A, strategy=PT).ending(CHANGES)} == {AB_C}


@pytest.mark.parametrize(("old", "new"), [(AB_C, BC_A), (ABC_D, BCD_A)])
def test_a_plan_left_and_taken_up_again_at_once_has_its_rows_once(old: str, new: str) -> None:
    told = drained(old, new, old)
    assert {t.plan for t in told.ending(CHANGES)} == {old}


def test_states_with_rows_that_are_new_throughout_would_be_noticed() -> None:
    everything = mock.patch.object(RebuiltRows, "belongs", return_value=True)
    with everything, pytest.raises(DifferentRows, match="q: "):
        drained(AB_C, BC_A)
