"""From a move to its observed benefit: what was promised, and what came.

One move of many changes little, less than the noise between two rounds. Moves are therefore judged
together: an observation stays open until their promises add up to something that can be seen.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

VISIBLE = 0.05
"""Expected relief that stands out of the noise."""
LONGEST = 8
"""Rounds after which to look anyway."""


@dataclass(frozen=True, slots=True)
class Observation:
    """Moves whose benefit is still to be seen.

    Attributes
    ----------
    since_round, epoch
        The round of the first move, and the load's epoch then.
    before
        The objective, cost per unit of work, in the round before the first move.
    expected
        Relief promised by all moves so far, as a share of `before`.
    """

    since_round: int
    epoch: int
    before: float
    expected: float
    moves: int
    rounds: int = 0

    def with_moves(self, expected: float, moves: int) -> Observation:
        """More moves of a later round join in."""
        return replace(self, expected=1 - (1 - self.expected) * (1 - expected), moves=self.moves + moves)

    def next_round(self) -> Observation:
        return replace(self, rounds=self.rounds + 1)

    @property
    def due(self) -> bool:
        return self.rounds >= 1 and (self.expected >= VISIBLE or self.rounds >= LONGEST)

    def observed(self, after: float) -> float:
        """Relief that came, as a share; negative when things got worse.

        >>> Observation(since_round=3, epoch=0, before=2.0, expected=0.4, moves=5).observed(1.5)
        0.25
        """
        return 1 - after / self.before if self.before > 0 else 0.0

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Observation:
        return cls(
            since_round=int(data["since_round"]),
            epoch=int(data["epoch"]),
            before=float(data["before"]),
            expected=float(data["expected"]),
            moves=int(data["moves"]),
            rounds=int(data["rounds"]),
        )
