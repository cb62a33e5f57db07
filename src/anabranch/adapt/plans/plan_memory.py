"""What the plan policy remembers from one evaluation to the next; it goes into the manifest."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class Trial:
    """A change that was proposed, and what came of it so far.

    Attributes
    ----------
    factor
        Seconds that a predicted second took before the change.
    seen
        Evaluations since.
    observed, promised_old, promised_new
        Sums over the evaluations that count: seconds taken, and predicted for either plan.
    """

    old: str
    new: str
    factor: float
    seen: int = 0
    observed: float = 0.0
    promised_old: float = 0.0
    promised_new: float = 0.0


@dataclass(frozen=True, slots=True)
class PlanMemory:
    """What the policy remembers of one query at one site.

    Attributes
    ----------
    wanted, streak
        The plan that looked better, and for how many evaluations it has.
    factor
        Seconds that a predicted second takes; None before anything was observed.
    observed_s
        CPU seconds that the query took per second of event time, as last seen.
    pause_left, next_pause
        Evaluations; 0 for the length of the first pause.
    plan, age, caution
        The plan that ran, for how many evaluations (None: since ever), and how often a plan did not last.
    """

    wanted: str | None = None
    streak: int = 0
    factor: float | None = None
    observed_s: float | None = None
    pause_left: int = 0
    next_pause: int = 0
    plan: str | None = None
    age: int | None = None
    caution: int = 0
    trial: Trial | None = None

    def to_json(self) -> dict[str, Any]:
        """What differs from the start, because there is one for every site."""
        start = asdict(PlanMemory())
        return {key: value for key, value in asdict(self).items() if value != start[key]}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> PlanMemory:
        trial = data.get("trial")
        return cls(**{**data, "trial": None if trial is None else Trial(**trial)})


@dataclass(frozen=True, slots=True)
class PlanPolicyState:
    """The policy's memory, by site and query; goes into the manifest."""

    memories: Mapping[tuple[int, str], PlanMemory] = field(default_factory=dict)

    def of(self, site: int, query: str) -> PlanMemory:
        return self.memories.get((site, query), PlanMemory())

    @property
    def is_busy(self) -> bool:
        """Whether some plan looks better, a change is on trial, or a pause is being counted."""
        return any(m.wanted is not None or m.trial or m.pause_left for m in self.memories.values())

    def to_json(self) -> list[dict[str, Any]]:
        return [{"site": s, "query": q, **memory.to_json()} for (s, q), memory in self.memories.items()]

    @classmethod
    def from_json(cls, data: Iterable[Mapping[str, Any]]) -> PlanPolicyState:
        memories = {}
        for entry in data:
            rest = {key: value for key, value in entry.items() if key not in ("site", "query")}
            memories[int(entry["site"]), str(entry["query"])] = PlanMemory.from_json(rest)
        return cls(memories)
