"""A decider whose admission is given, and everything else as the policies decide."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from anabranch.adapt.boundary.boundary_state import BoundaryState
from anabranch.adapt.boundary.decider import AdaptiveDecider
from anabranch.adapt.boundary.decisions import Decisions
from anabranch.adapt.boundary.observed import Observed
from anabranch.adapt.memory.admission import Admission


class FixedAdmission(AdaptiveDecider):
    """Lets in what it is told to, by the last batch that has ended; that is -1 before the first."""

    def __init__(self, admission_after: Callable[[int], Admission]) -> None:
        self._admission_after = admission_after

    def start(self, state: BoundaryState, observed: Observed) -> tuple[BoundaryState, Decisions]:
        state, decisions = super().start(state, observed)
        return state, replace(decisions, admission=self._admission_after(observed.batch))

    def decide(self, state: BoundaryState, observed: Observed) -> tuple[BoundaryState, Decisions]:
        state, decisions = super().decide(state, observed)
        return state, replace(decisions, admission=self._admission_after(observed.batch))
