"""How the controller behaves: ours by default, the paper's for its experiments."""

from __future__ import annotations

from dataclasses import dataclass, field

from anabranch.adapt.balance.self_tuning import TuningLimits
from anabranch.adapt.balance.worth import Worth
from anabranch.adapt.measures.rolling import Memory


@dataclass(frozen=True, slots=True)
class ControllerSettings:
    """The controller's parameters.

    Attributes
    ----------
    limits
        Start and bounds of what tunes itself: th_imb and δ_min.
    utilisation
        th_util.
    memory
        How past rounds count.
    self_tuning
        Judge moves by their observed benefit.
    instant
        A move is made at the boundary at which it is decided (shared blocks). Otherwise it is ordered, and
        the driver says later that it has finished.
    max_moves
        Moves per round.
    undo_span
        Rounds in which a partition may not return to a site it left, unless the load has shifted.
    worth
        What moves for load must save; None takes whatever the policy proposes.
    warm_up
        Leave the first batches of a process out of account.
    """

    limits: TuningLimits = field(default_factory=TuningLimits)
    utilisation: float = 0.9
    memory: Memory = field(default_factory=Memory)
    self_tuning: bool = True
    instant: bool = True
    max_moves: int = 128
    undo_span: int = 10
    worth: Worth | None = field(default_factory=Worth)
    warm_up: bool = False

    @classmethod
    def as_published(cls, *, minimum_round: float = 0.010, imbalance: float = 1.2) -> ControllerSettings:
        """Flux, section 5.4: δ_min 10 ms, th_imb 1.2, th_util 0.9, no memory of earlier rounds."""
        return cls(
            limits=TuningLimits(imbalance=imbalance, minimum_round=minimum_round),
            memory=Memory.none(),
            self_tuning=False,
            instant=False,
            undo_span=-1,
            worth=None,
        )
