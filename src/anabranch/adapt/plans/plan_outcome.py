"""What came of a change of plan: the saving that was promised, and the one that was observed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from anabranch.adapt.balance.self_tuning import Effect
from anabranch.adapt.plans.plan_memory import Trial


@dataclass(frozen=True, slots=True)
class PlanOutcome:
    """A change that has run long enough to be judged.

    The old plan does not run any more. What it would take by now is what the model says of it, times what a
    predicted second took while it ran.

    Attributes
    ----------
    promised, observed
        Saving, as a share of what the old plan would take.
    old_s, new_s
        CPU seconds per second of event time: what the old plan would take, and what the new one took.
    """

    site: int
    query: str
    old: str
    new: str
    promised: float
    observed: float
    old_s: float
    new_s: float
    effect: Effect

    @classmethod
    def of_trial(
        cls, site: int, query: str, trial: Trial, *, evaluations: int, effect: Effect
    ) -> PlanOutcome:
        due = max(trial.factor * trial.promised_old, 1e-12)
        return cls(
            site,
            query,
            trial.old,
            trial.new,
            1 - trial.promised_new / max(trial.promised_old, 1e-12),
            1 - trial.observed / due,
            due / evaluations,
            trial.observed / evaluations,
            effect,
        )

    def __str__(self) -> str:
        return (
            f"query {self.query} at site {self.site}: {self.old} → {self.new} was to save "
            f"{self.promised:.0%} and saved {self.observed:.0%}: {self.new_s:.3g} s per second instead of "
            f"{self.old_s:.3g} ({self.effect})"
        )

    def to_json(self) -> dict[str, Any]:
        return {
            "site": self.site,
            "query": self.query,
            "old": self.old,
            "new": self.new,
            "expected": round(self.promised, 4),
            "observed": round(self.observed, 4),
            "oldSeconds": self.old_s,
            "newSeconds": self.new_s,
            "effect": str(self.effect),
        }
