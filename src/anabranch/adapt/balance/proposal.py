"""What a policy suggests, and what the controller makes of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any


class PolicyName(StrEnum):
    """Which concern a proposal serves."""

    LOAD = "load"
    MEMORY = "memory"


class Verdict(StrEnum):
    """What the controller answered."""

    ACCEPTED = "accepted"
    REFUSED = "refused"


@dataclass(frozen=True, slots=True)
class Move:
    """A partition and its state go from one site to another.

    >>> Move(5, source=0, target=3).to_json()
    {'partition': 5, 'source': 0, 'target': 3}
    """

    partition: int
    source: int
    target: int

    def to_json(self) -> dict[str, int]:
        return {"partition": self.partition, "source": self.source, "target": self.target}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Move:
        return cls(int(data["partition"]), int(data["source"]), int(data["target"]))

    def __str__(self) -> str:
        return f"partition {self.partition}: site {self.source} → site {self.target}"


@dataclass(frozen=True, slots=True)
class Proposal:
    """A move that a policy suggests.

    Attributes
    ----------
    reason
        The numbers that led to it, in words.
    expected
        Share, 0 to 1, that the donor and the receiver together are expected to be relieved of: their
        peak afterwards against their peak now.
    """

    move: Move
    policy: PolicyName
    reason: str
    expected: float


@dataclass(frozen=True, slots=True)
class Decision:
    """The controller's answer to a proposal, in the round it was made."""

    proposal: Proposal
    verdict: Verdict
    why: str
    round: int
    at: float

    @property
    def accepted(self) -> bool:
        return self.verdict is Verdict.ACCEPTED

    def to_json(self) -> dict[str, Any]:
        return {
            **self.proposal.move.to_json(),
            "policy": str(self.proposal.policy),
            "verdict": str(self.verdict),
            "reason": self.proposal.reason,
            "why": self.why,
            "round": self.round,
            "expected": round(self.proposal.expected, 4),
        }
