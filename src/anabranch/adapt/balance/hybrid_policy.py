"""Flux's hybrid policy (section 6.4): memory first, then load within the memory there is."""

from __future__ import annotations

from dataclasses import dataclass

from anabranch.adapt.balance.best_fit_policy import BestFitPolicy
from anabranch.adapt.balance.load_policy import LoadPolicy
from anabranch.adapt.balance.policy import Policy, Thresholds
from anabranch.adapt.balance.proposal import Proposal
from anabranch.adapt.balance.round_view import RoundView
from anabranch.adapt.memory.memory_policy import MemoryPolicy


@dataclass(frozen=True, slots=True)
class HybridPolicy:
    """While anything is spilled, the memory policy; else the load policy, limited by memory.

    Parameters
    ----------
    load
        Must itself heed memory (`within_memory`).
    """

    memory: Policy
    load: Policy

    @classmethod
    def as_published(cls) -> HybridPolicy:
        return cls(MemoryPolicy(), LoadPolicy(within_memory=True))

    @classmethod
    def default(cls) -> HybridPolicy:
        """The engine's: several moves at a time, and only what is needed."""
        return cls(MemoryPolicy(passes=16, only_when_short=True), BestFitPolicy(within_memory=True))

    def propose(self, view: RoundView, thresholds: Thresholds) -> tuple[Proposal, ...]:
        short = view.on_disk.any() or (view.excess_of_sites() < 0).any()
        return (self.memory if short else self.load).propose(view, thresholds)
