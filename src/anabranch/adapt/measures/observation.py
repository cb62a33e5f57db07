"""From a move to its observed benefit: what was promised, and what came.

One move of many changes little, less than the noise between two rounds, and one round says little. Moves are
therefore judged together, several rounds after them against several before. Loads drift meanwhile, after
a shift for as long as its rows fill the windows: what counts is the difference from what the same rounds
would have cost had nothing moved.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from anabranch.adapt.balance.proposal import Move
from anabranch.adapt.measures.statistics import Ints

VISIBLE = 0.05
"""Expected relief that stands out of the noise."""
PLAIN_HARM = 0.15
"""Things got worse by so much that waiting would be foolish."""
SEVERAL = 3
"""Rounds after the last move over which moves are judged."""
LONGEST = 8
"""Rounds after which to look anyway; also those that a baseline remembers."""


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
class Baseline:
    """What rounds cost while nothing moved: the mean of the last, of one epoch of the load.

    Attributes
    ----------
    shares
        Work of each site, per second of work anywhere.
    """

    outcome: Outcome
    shares: tuple[float, ...]
    epoch: int
    rounds: int = 1

    def with_round(self, outcome: Outcome, shares: tuple[float, ...], epoch: int) -> Baseline:
        """One round later; a shift of the load, or other sites, begin anew."""
        if epoch != self.epoch or len(shares) != len(self.shares):
            return Baseline(outcome, shares, epoch)
        weight = 1 / min(self.rounds + 1, LONGEST)
        was = self.outcome
        means = (_mean(getattr(was, f), getattr(outcome, f), weight) for f in ("critical", "pace", "noise"))
        mixed = tuple(_mean(a, b, weight) for a, b in zip(self.shares, shares, strict=True))
        return Baseline(Outcome(*means), mixed, epoch, min(self.rounds + 1, LONGEST))

    @property
    def before(self) -> Outcome:
        """The mean with its own noise: that of a round, less by the square root of their number."""
        return replace(self.outcome, noise=self.outcome.noise / math.sqrt(self.rounds))

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Baseline:
        outcome = Outcome(**{key: float(value) for key, value in data["outcome"].items()})
        return cls(outcome, tuple(map(float, data["shares"])), int(data["epoch"]), int(data["rounds"]))


def _mean(before: float, now: float, weight: float) -> float:
    return (1 - weight) * before + weight * now


@dataclass(frozen=True, slots=True)
class Observation:
    """Moves whose benefit is still to be seen.

    >>> Outcome(critical=2.0, pace=4.0).relief(Outcome(critical=1.5, pace=5.0))
    Outcome(critical=0.25, pace=-0.25, noise=0.0)

    Attributes
    ----------
    since_round, epoch
        The round of the first move, and the load's epoch then.
    before, shares
        What the rounds before the first move cost, and the work of each site in them (`Baseline`).
    expected
        Relief of the critical site promised by all moves so far, as a share.
    homes
        By partition that has moved, the site that it left first.
    rounds, seen
        Rounds since the first move, and since the last.
    logs
        Over the rounds seen: sums of the logarithms of what is left of the critical path and the pace, and of
        the squares of their noise.
    """

    since_round: int
    epoch: int
    before: Outcome
    shares: tuple[float, ...]
    expected: float
    moves: int
    homes: Mapping[int, int]
    rounds: int = 0
    seen: int = 0
    logs: tuple[float, float, float] = (0.0, 0.0, 0.0)

    def with_moves(self, expected: float, moves: Collection[Move]) -> Observation:
        """More moves of a later round join in.

        What was seen before they were made does not count for them; harm does, or whoever does harm in every
        round would never be judged.
        """
        harmed = self.relief.critical < 0
        return replace(
            self,
            expected=1 - (1 - self.expected) * (1 - expected),
            moves=self.moves + len(moves),
            homes={**{m.partition: m.source for m in moves}, **self.homes},
            seen=self.seen if harmed else 0,
            logs=self.logs if harmed else (0.0, 0.0, 0.0),
        )

    def unmoved(self, site_of: Ints) -> Ints:
        """An assignment as it would be without the moves."""
        before = site_of.copy()
        for partition, site in self.homes.items():
            before[partition] = site
        return before

    def with_round(self, outcome: Outcome, drift: float) -> Observation:
        """One round later; `drift` is how much dearer it would have been than those before, unmoved."""
        unmoved = self.before.drifted(drift)
        if min(outcome.critical, outcome.pace, unmoved.critical, unmoved.pace) <= 0:  # nothing was done
            return replace(self, rounds=self.rounds + 1)
        left = math.log(outcome.critical / unmoved.critical), math.log(outcome.pace / unmoved.pace)
        logs = (self.logs[0] + left[0], self.logs[1] + left[1], self.logs[2] + outcome.noise**2)
        return replace(self, rounds=self.rounds + 1, seen=self.seen + 1, logs=logs)

    @property
    def relief(self) -> Outcome:
        """Shares saved in the mean round seen, with their noise."""
        if not self.seen:
            return Outcome(0.0, 0.0, self.before.noise)
        critical, pace = (1 - math.exp(log / self.seen) for log in self.logs[:2])
        return Outcome(critical, pace, math.hypot(self.before.noise, math.sqrt(self.logs[2]) / self.seen))

    @property
    def due(self) -> bool:
        """Whether to judge now: enough was promised and seen, the harm is plain, or time is up."""
        relief = self.relief
        harm = min(relief.critical, relief.pace) <= -max(PLAIN_HARM, 2 * relief.noise)
        several = self.seen >= SEVERAL and self.expected >= VISIBLE
        return several or (self.seen >= SEVERAL - 1 and harm) or (self.rounds >= LONGEST and self.seen > 0)

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
            seen=int(data["seen"]),
            logs=(float(data["logs"][0]), float(data["logs"][1]), float(data["logs"][2])),
        )
