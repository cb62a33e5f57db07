"""A decider that gives queries other homes at every boundary, for no reason at all."""

from __future__ import annotations

import random
from dataclasses import replace

from anabranch.adapt.boundary.boundary_state import BoundaryState
from anabranch.adapt.boundary.decider import AdaptiveDecider, Decider
from anabranch.adapt.boundary.decisions import Decisions
from anabranch.adapt.boundary.observed import Observed
from anabranch.adapt.placement.homes import Homes
from anabranch.plan.placement_units import placement_units


class RestlessHomes:
    """Decides as another decider does, but for homes; counts the steps for which it has chosen some."""

    def __init__(self, seed: int, decider: Decider | None = None) -> None:
        self._seed = seed
        self._decider = decider or AdaptiveDecider()
        self.chosen = 0

    def start(self, state: BoundaryState, observed: Observed) -> tuple[BoundaryState, Decisions]:
        state, decisions = self._decider.start(state, observed)
        return self._with_homes(state, observed, decisions)

    def decide(self, state: BoundaryState, observed: Observed) -> tuple[BoundaryState, Decisions]:
        state, decisions = self._decider.decide(state, observed)
        return self._with_homes(state, observed, decisions)

    def _with_homes(
        self, state: BoundaryState, observed: Observed, decisions: Decisions
    ) -> tuple[BoundaryState, Decisions]:
        draw = random.Random(f"{self._seed} {observed.batch} {observed.step} homes")
        units = [unit for unit in placement_units(observed.joins.layout) if draw.random() < 0.7]
        sites = decisions.partition_map.sites
        homes = {q: at for unit in units for at in (draw.randrange(sites),) for q in unit}
        self.chosen += bool(homes)
        return replace(state, homes=Homes(homes)), decisions
