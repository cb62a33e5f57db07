"""Why the controller refuses a move: an ordered list of rules, each a small function."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from anabranch.adapt.balance.proposal import Proposal
from anabranch.adapt.balance.round_view import RoundView


@dataclass(frozen=True, slots=True)
class Docket:
    """What the rules may look at.

    Attributes
    ----------
    taken
        Partitions accepted before in this round.
    """

    view: RoundView
    taken: frozenset[int]
    allowed: int


Rule = Callable[[Proposal, Docket], str | None]


def refusal(proposal: Proposal, docket: Docket) -> str | None:
    """Return why the proposal is refused, or None."""
    for rule in RULES:
        why = rule(proposal, docket)
        if why is not None:
            return why
    return None


def _site_must_exist(proposal: Proposal, docket: Docket) -> str | None:
    target = proposal.move.target
    return None if 0 <= target < docket.view.sites else f"there is no site {target}"


def _source_must_own_it(proposal: Proposal, docket: Docket) -> str | None:
    owner = int(docket.view.site_of[proposal.move.partition])
    if owner != proposal.move.source:
        return f"the partition belongs to site {owner}"
    return "it is there already" if owner == proposal.move.target else None


def _one_protocol_per_partition(proposal: Proposal, docket: Docket) -> str | None:
    if docket.view.pinned[proposal.move.partition]:
        return "another protocol is running on this partition"
    return "it moves in this round already" if proposal.move.partition in docket.taken else None


def _must_not_undo(proposal: Proposal, docket: Docket) -> str | None:
    barred = docket.view.barred.get(proposal.move.partition, frozenset())
    return "it would undo a recent move under the same load" if proposal.move.target in barred else None


def _limit_per_round(proposal: Proposal, docket: Docket) -> str | None:
    del proposal
    return None if len(docket.taken) < docket.allowed else f"{docket.allowed} moves per round are allowed"


RULES: tuple[Rule, ...] = (
    _site_must_exist,
    _source_must_own_it,
    _one_protocol_per_partition,
    _must_not_undo,
    _limit_per_round,
)
