"""The policies' parameters follow from what the moves brought.

Flux leaves this open ("autotuning of these values is an interesting and necessary direction", section
5.4). The rule here: moves are hypotheses with an expected benefit. When the benefit shows, be keener;
when it does not, be slower and ask for more imbalance; when it fails again and again, stop for a
while, each time for longer.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from enum import StrEnum
from typing import Any

from anabranch.adapt.measures.observation import Outcome


class Effect(StrEnum):
    """What moves turned out to be."""

    USEFUL = "useful"
    USELESS = "useless"
    HARMFUL = "harmful"
    UNCLEAR = "unclear"
    """The noise of such short rounds hides it."""
    UNKNOWN = "unknown"
    """The load has shifted meanwhile."""


@dataclass(frozen=True, slots=True)
class TuningLimits:
    """Where tuning starts and how far it may go.

    Attributes
    ----------
    imbalance, keenest_imbalance, laziest_imbalance
        th_imb at the start, and its bounds.
    minimum_round, longest_round
        δ_min at the start, which is also its lower bound, and its upper bound.
    patience
        Strikes until the policy has to pause; a useless outcome is one, a harmful one two.
    first_pause, longest_pause
        Rounds.
    """

    imbalance: float = 1.1
    keenest_imbalance: float = 1.05
    laziest_imbalance: float = 2.0
    minimum_round: float = 1.0
    longest_round: float = 16.0
    patience: int = 4
    first_pause: int = 16
    longest_pause: int = 256


@dataclass(frozen=True, slots=True)
class Tuning:
    """The values in force."""

    imbalance: float
    minimum_round: float
    strikes: int = 0
    pause_left: int = 0
    next_pause: int = 16

    @classmethod
    def start(cls, limits: TuningLimits) -> Tuning:
        return cls(limits.imbalance, limits.minimum_round, next_pause=limits.first_pause)

    @property
    def paused(self) -> bool:
        return self.pause_left > 0

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Tuning:
        return cls(
            float(data["imbalance"]),
            float(data["minimum_round"]),
            int(data["strikes"]),
            int(data["pause_left"]),
            int(data["next_pause"]),
        )


def judge(expected: float, relief: Outcome, *, least: float = 0.02, harm: float = 0.05) -> Effect:
    """Compare the relief that was expected with the one that came.

    A quarter of the promise is enough: the load moves on while we measure. Moves that promised nothing to
    speak of are useless whatever noise came after them.

    >>> judge(0.4, Outcome(0.35, 0.3)), judge(0.4, Outcome(0.01, 0.0)), judge(0.4, Outcome(0.0, -0.2))
    (<Effect.USEFUL: 'useful'>, <Effect.USELESS: 'useless'>, <Effect.HARMFUL: 'harmful'>)
    """
    doubt = 2 * relief.noise
    if expected >= least and relief.critical >= max(least, expected / 4, doubt):
        return Effect.USEFUL
    if min(relief.critical, relief.pace) <= -max(harm, doubt):
        return Effect.HARMFUL
    return Effect.UNCLEAR if doubt > max(least, expected / 2) else Effect.USELESS


def tune(tuning: Tuning, effect: Effect, limits: TuningLimits) -> Tuning:
    """Learn from the effect of the last moves.

    A load that shifts before moves can show is a strike, too: when it always does, there is nothing to gain.
    Rounds too short to tell are made longer.
    """
    if effect is Effect.USEFUL:
        return replace(
            tuning,
            imbalance=max(limits.keenest_imbalance, 1 + (tuning.imbalance - 1) * 0.7),
            minimum_round=max(limits.minimum_round, tuning.minimum_round / 2),
            strikes=0,
            next_pause=max(limits.first_pause, tuning.next_pause // 2),
        )
    if effect is Effect.UNCLEAR:
        return replace(tuning, minimum_round=min(limits.longest_round, tuning.minimum_round * 2))
    strikes = tuning.strikes + (2 if effect is Effect.HARMFUL else 1)
    worse = replace(tuning, strikes=strikes)
    if effect is not Effect.UNKNOWN:
        worse = replace(
            worse,
            imbalance=min(limits.laziest_imbalance, 1 + (tuning.imbalance - 1) * 1.5),
            minimum_round=min(limits.longest_round, tuning.minimum_round * 2),
        )
    if strikes < limits.patience:
        return worse
    return replace(
        worse,
        strikes=limits.patience // 2,  # on probation: it takes less to pause again
        pause_left=tuning.next_pause,
        next_pause=min(limits.longest_pause, tuning.next_pause * 2),
    )


def relax(tuning: Tuning, limits: TuningLimits, *, shifted: bool = False) -> Tuning:
    """A round without moves: a pause wears off, and caution slowly does. A shift of the load ends caution.

    A shift does not end a pause: a load that shifts all the time is what made us pause. And a pause teaches
    nothing, so caution is the same after it as before.
    """
    if tuning.paused:
        return replace(tuning, pause_left=tuning.pause_left - 1)
    keep = 0.0 if shifted else 0.95
    caution = max(0.0, tuning.imbalance - limits.imbalance)
    slower = max(0.0, tuning.minimum_round - limits.minimum_round)
    return replace(
        tuning,
        imbalance=tuning.imbalance - caution * (1 - keep),
        minimum_round=tuning.minimum_round - slower * (1 - keep),
    )
