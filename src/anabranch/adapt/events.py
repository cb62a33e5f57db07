"""Events of the adaptive parts: what was decided and what came of it, with the numbers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from anabranch.adapt.proposal import Decision


class EventKind(StrEnum):
    """A word to filter by."""

    MOVE_ACCEPTED = "move_accepted"
    MOVE_REFUSED = "move_refused"
    MOVE_FINISHED = "move_finished"
    BENEFIT_OBSERVED = "benefit_observed"
    TUNED = "tuned"
    PAUSED = "paused"
    RESUMED = "resumed"
    LOAD_SHIFTED = "load_shifted"
    MEMORY_PLANNED = "memory_planned"
    ROWS_PUT_OFF = "rows_put_off"
    SKEW_LASTS = "skew_lasts"
    PLAN_CHANGED = "plan_changed"
    PLAN_POSTPONED = "plan_postponed"
    TRACK_BEGAN = "track_began"
    TRACK_ENDED = "track_ended"
    STATE_MOVED = "state_moved"
    STREAM_IDLE = "stream_idle"
    TIME_UNIT = "time_unit"


@dataclass(frozen=True, slots=True)
class AdaptEvent:
    """Something the controller decided or noticed.

    >>> AdaptEvent(7.0, EventKind.PAUSED, "no more moves for 16 rounds").to_json()
    {'at': 7.0, 'kind': 'paused', 'message': 'no more moves for 16 rounds'}
    """

    at: float
    kind: EventKind
    message: str
    data: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def of_decision(cls, decision: Decision) -> AdaptEvent:
        """Tell a decision: the move, the policy's reason and, if refused, why."""
        proposal = decision.proposal
        if decision.accepted:
            kind, message = EventKind.MOVE_ACCEPTED, f"{proposal.move}: {proposal.reason}"
        else:
            kind, message = EventKind.MOVE_REFUSED, f"{proposal.move} refused: {decision.why}"
        return cls(decision.at, kind, message, decision.to_json())

    def to_json(self) -> dict[str, Any]:
        return {"at": self.at, "kind": str(self.kind), "message": self.message, **self.data}
