"""The controller's rules, each with a move that it alone refuses."""

from __future__ import annotations

import pytest

from anabranch.adapt.balance.proposal import Move, PolicyName, Proposal
from anabranch.adapt.balance.screening import ScreeningContext, refusal
from tests.adapt.views import view_of

VIEW = view_of([[5, 1], [1, 1]], pinned=[1], barred={3: frozenset({0})})
"""Partitions 0 and 1 at site 0, 2 and 3 at site 1."""


def asked(partition: int, source: int, target: int) -> Proposal:
    return Proposal(Move(partition, source, target), PolicyName.LOAD, "because", 0.1)


def context(*taken: int, allowed: int = 2) -> ScreeningContext:
    return ScreeningContext(VIEW, frozenset(taken), allowed)


def test_a_move_that_breaks_no_rule_is_not_refused() -> None:
    assert refusal(asked(0, 0, 1), context()) is None


@pytest.mark.parametrize(
    ("proposal", "taken", "why"),
    [
        (asked(0, 0, 2), (), "there is no site 2"),
        (asked(2, 0, 1), (), "the partition belongs to site 1"),
        (asked(0, 0, 0), (), "it is there already"),
        (asked(1, 0, 1), (), "another protocol is running on this partition"),
        (asked(0, 0, 1), (0,), "it moves in this round already"),
        (asked(3, 1, 0), (), "it would undo a recent move under the same load"),
        (asked(0, 0, 1), (2, 3), "2 moves per round are allowed"),
    ],
)
def test_a_move_is_refused_with_its_reason(proposal: Proposal, taken: tuple[int, ...], why: str) -> None:
    assert refusal(proposal, context(*taken)) == why
