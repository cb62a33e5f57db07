"""A partition does not go back to where it came from, for a while, and only under the same load."""

from __future__ import annotations

import json

from anabranch.adapt.balance.proposal import Move
from anabranch.adapt.balance.recent_moves import RecentMoves

GONE = (
    RecentMoves()
    .with_moves([Move(7, 0, 3), Move(8, 1, 3)], round=4, epoch=0)
    .with_moves([Move(7, 3, 2)], round=6, epoch=0)
)


def test_all_sites_that_a_partition_has_left_are_barred() -> None:
    assert GONE.barred(round=7, epoch=0, span=10) == {7: frozenset({0, 3}), 8: frozenset({1})}


def test_the_bar_is_lifted_with_time_and_with_a_shift_of_the_load() -> None:
    assert GONE.barred(round=15, epoch=0, span=10) == {7: frozenset({3})}
    assert GONE.barred(round=7, epoch=1, span=10) == {}


def test_old_ones_are_forgotten_and_the_others_survive_a_restart() -> None:
    kept = GONE.without_older_than(5)
    assert len(kept.entries) == 1
    assert RecentMoves.from_json(json.loads(json.dumps(GONE.to_json()))) == GONE
