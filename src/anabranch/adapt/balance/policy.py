"""The seam between policies and the controller."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from anabranch.adapt.balance.proposal import Proposal
from anabranch.adapt.balance.round_view import RoundView


@dataclass(frozen=True, slots=True)
class Thresholds:
    """When a pair of sites is worth a look (Flux, section 5.3).

    Attributes
    ----------
    imbalance
        th_imb: the donor must be loaded this many times as much as the receiver.
    utilisation
        th_util: a receiver busier than this gets nothing.
    """

    imbalance: float = 1.2
    utilisation: float = 0.9


class Policy(Protocol):
    """Looks at a round and suggests moves, most useful first. Pure: same view, same proposals."""

    def propose(self, view: RoundView, thresholds: Thresholds) -> tuple[Proposal, ...]: ...
