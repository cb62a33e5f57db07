"""From a move to its observed benefit: what was promised, and what came.

One move of many changes little, less than the noise between two rounds. Moves are therefore judged
together: an observation stays open until their promises add up to something that can be seen. Loads drift
meanwhile, after a shift for as long as its rows fill the windows: what counts is the difference from what
the same rounds would have cost had nothing moved.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from anabranch.adapt.proposal import Move
from anabranch.adapt.statistics import Ints

VISIBLE = 0.05
"""Expected relief that stands out of the noise."""
PLAIN_HARM = 0.15
"""Things got worse by so much that waiting would be foolish."""
LONGEST = 8
"""Rounds after which to look anyway."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a round cost.

    Attributes
    ----------
    critical
        Seconds the busiest site needs for what arrived for it, per second of work that arrived anywhere.
        Moves for balance are to lower this. Rows put off count, so a buffer does not hide an imbalance.
    pace
        Seconds that passed per second of work done. Moves must not raise this: it shows what they cost.
    noise
        Relative error of the two, from the number of rows that the busiest site saw: short rounds see few.
    """

    critical: float
    pace: float
    noise: float = 0.0

    def drifted(self, factor: float) -> Outcome:
        """What the same would have cost under a load that makes it dearer by a factor."""
        return replace(self, critical=factor * self.critical, pace=factor * self.pace)

    def relief(self, after: Outcome) -> Outcome:
        """Shares saved since; negative where it got worse."""
        noise = float(np.hypot(self.noise, after.noise))
        return Outcome(_saved(self.critical, after.critical), _saved(self.pace, after.pace), noise)


def _saved(before: float, after: float) -> float:
    return 1 - after / before if before > 0 else 0.0


@dataclass(frozen=True, slots=True)
class Observation:
    """Moves whose benefit is still to be seen.

    >>> Outcome(critical=2.0, pace=4.0).relief(Outcome(critical=1.5, pace=5.0))
    Outcome(critical=0.25, pace=-0.25, noise=0.0)

    Attributes
    ----------
    since_round, epoch
        The round of the first move, and the load's epoch then.
    before
        What the round before the first move cost.
    shares
        Work of each site in that round, per second of work anywhere.
    expected
        Relief of the critical site promised by all moves so far, as a share.
    homes
        By partition that has moved, the site that it left first.
    """

    since_round: int
    epoch: int
    before: Outcome
    shares: tuple[float, ...]
    expected: float
    moves: int
    homes: Mapping[int, int]
    rounds: int = 0

    def with_moves(self, expected: float, moves: Collection[Move]) -> Observation:
        """More moves of a later round join in."""
        return replace(
            self,
            expected=1 - (1 - self.expected) * (1 - expected),
            moves=self.moves + len(moves),
            homes={**{m.partition: m.source for m in moves}, **self.homes},
        )

    def unmoved(self, site_of: Ints) -> Ints:
        """An assignment as it would be without the moves."""
        before = site_of.copy()
        for partition, site in self.homes.items():
            before[partition] = site
        return before

    def next_round(self) -> Observation:
        return replace(self, rounds=self.rounds + 1)

    def due(self, relief: Outcome) -> bool:
        """Whether to judge now: enough was promised, enough time has passed, or the harm is plain."""
        harm = min(relief.critical, relief.pace) <= -max(PLAIN_HARM, 2 * relief.noise)
        return self.rounds >= 1 and (harm or self.expected >= VISIBLE or self.rounds >= LONGEST)

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Observation:
        return cls(
            since_round=int(data["since_round"]),
            epoch=int(data["epoch"]),
            before=Outcome(**{key: float(value) for key, value in data["before"].items()}),
            shares=tuple(map(float, data["shares"])),
            expected=float(data["expected"]),
            moves=int(data["moves"]),
            homes={int(partition): int(site) for partition, site in data["homes"].items()},
            rounds=int(data["rounds"]),
        )
