"""Why the controller refuses a move: an ordered list of rules, each a small function."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from anabranch.adapt.balance.proposal import Proposal
from anabranch.adapt.balance.round_view import RoundView


@dataclass(frozen=True, slots=True)
class ScreeningContext:
    """What the rules may look at.

    Attributes
    ----------
    taken
        Partitions accepted before in this round.
    """

    view: RoundView
    taken: frozenset[int]
    allowed: int


Rule = Callable[[Proposal, ScreeningContext], str | None]


def refusal(proposal: Proposal, context: ScreeningContext) -> str | None:
    """Return why the proposal is refused, or None."""
    for rule in RULES:
        why = rule(proposal, context)
        if why is not None:
            return why
    return None


def _site_must_exist(proposal: Proposal, context: ScreeningContext) -> str | None:
    target = proposal.move.target
    return None if 0 <= target < context.view.sites else f"there is no site {target}"


def _source_must_own_it(proposal: Proposal, context: ScreeningContext) -> str | None:
    owner = int(context.view.site_of[proposal.move.partition])
    if owner != proposal.move.source:
        return f"the partition belongs to site {owner}"
    return "it is there already" if owner == proposal.move.target else None


def _one_protocol_per_partition(proposal: Proposal, context: ScreeningContext) -> str | None:
    if context.view.pinned[proposal.move.partition]:
        return "another protocol is running on this partition"
    return "it moves in this round already" if proposal.move.partition in context.taken else None


def _must_not_undo(proposal: Proposal, context: ScreeningContext) -> str | None:
    barred = context.view.barred.get(proposal.move.partition, frozenset())
    return "it would undo a recent move under the same load" if proposal.move.target in barred else None


def _limit_per_round(proposal: Proposal, context: ScreeningContext) -> str | None:
    del proposal
    return None if len(context.taken) < context.allowed else f"{context.allowed} moves per round are allowed"


RULES: tuple[Rule, ...] = (
    _site_must_exist,
    _source_must_own_it,
    _one_protocol_per_partition,
    _must_not_undo,
    _limit_per_round,
)
