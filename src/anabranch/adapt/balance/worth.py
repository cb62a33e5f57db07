"""Whether moves are worth making: what they save must be worth having, and more than noise.

A busiest site that is 40 % above the others is no reason to move anything when it takes 10 of the 300
milliseconds of a batch, or when sites differ by as much from one batch to the next.
"""

from __future__ import annotations

import math
from collections.abc import Collection
from dataclasses import dataclass
from enum import StrEnum

from anabranch.adapt.balance.proposal import Move
from anabranch.adapt.balance.round_view import RoundView


class LeftAlone(StrEnum):
    """Why moves that a policy proposes are not made, all of them together."""

    IMMATERIAL = "immaterial"
    IN_THE_NOISE = "in the noise"


@dataclass(frozen=True, slots=True)
class Worth:
    """What moves of a round must save, all together.

    Attributes
    ----------
    material
        Share of the time that batches take, as it would be with a machine per site.
    doubt
        Standard errors by which the relief of the busiest site must stand out of the noise.
    """

    material: float = 0.05
    doubt: float = 1.5

    def objection(self, view: RoundView, moves: Collection[Move]) -> tuple[LeftAlone, str] | None:
        """Why the moves are not worth making, in a word and a sentence; None if they are."""
        before, after = float(view.load_of_sites().max()), float(view.after(moves).max())
        if before <= 0 or after <= 0:
            return LeftAlone.IMMATERIAL, "there is no load"
        whole = before + view.overhead_s
        saved = (before - after) / whole
        if saved < self.material:
            return LeftAlone.IMMATERIAL, (
                f"{len(moves)} moves would save {max(saved, 0.0):.1%} of the time of a batch, of which the "
                f"busiest site takes {before / whole:.0%}"
            )
        relief, noise = math.log(before / after), self.doubt * view.noise
        if relief < noise:
            return LeftAlone.IN_THE_NOISE, (
                f"{len(moves)} moves would relieve the busiest site by {1 - after / before:.0%}; what is "
                f"known of the sites is not better than ±{math.exp(noise) - 1:.0%}"
            )
        return None
