"""Events: what was decided or noticed while a run goes on, with the reason and the numbers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any

from anabranch.adapt.balance.proposal import Decision


class EventKind(StrEnum):
    """A word to filter by."""

    REBALANCED = "rebalanced"
    MOVE_ACCEPTED = "move_accepted"
    MOVE_REFUSED = "move_refused"
    MOVE_FINISHED = "move_finished"
    BENEFIT_OBSERVED = "benefit_observed"
    TUNED = "tuned"
    LEFT_ALONE = "left_alone"
    PAUSED = "paused"
    RESUMED = "resumed"
    LOAD_SHIFTED = "load_shifted"
    MEMORY_PLANNED = "memory_planned"
    ROWS_PUT_OFF = "rows_put_off"
    SKEW_LASTS = "skew_lasts"
    PLAN_CHANGED = "plan_changed"
    ORDER_CHANGED = "order_changed"
    ORDER_POSTPONED = "order_postponed"
    PLAN_POSTPONED = "plan_postponed"
    PLAN_ABANDONED = "plan_abandoned"
    TRACK_BEGAN = "track_began"
    TRACK_ENDED = "track_ended"
    STATE_MOVED = "state_moved"
    ROUTING_CHANGED = "routing_changed"
    HOMES_CHOSEN = "homes_chosen"
    KEY_SPREAD = "key_spread"
    KEY_COOLED = "key_cooled"
    STREAM_IDLE = "stream_idle"
    TIME_UNIT = "time_unit"
    ROWS_LATE = "rows_late"
    REPLAYED = "replayed"
    FINISHING = "finishing"
    QUERY_FAILED = "query_failed"
    SINK_FAILED = "sink_failed"
    SINK_RECOVERED = "sink_recovered"
    SINK_GIVEN_UP = "sink_given_up"
    QUERY_ADDED = "query_added"
    QUERY_DROPPED = "query_dropped"
    QUERY_REFUSED = "query_refused"
    GROUP_DISSOLVED = "group_dissolved"
    GROUP_OVER = "group_over"
    INGEST_RESTARTED = "ingest_restarted"
    EMPTY_FILES = "empty_files"
    KAFKA_SILENT = "kafka_silent"
    KAFKA_ANSWERS = "kafka_answers"
    TABLE_READ = "table_read"
    FINISHED = "finished"
    STOPPED = "stopped"

    @property
    def is_detail(self) -> bool:
        """Whether another event sums it up: terminals leave it out, the logs and `--why` have it."""
        return self in _DETAILS

    @property
    def is_decision(self) -> bool:
        """Whether the engine decided something, or noticed what it decides by."""
        return self not in _COURSE


_DETAILS = frozenset(
    {EventKind.MOVE_ACCEPTED, EventKind.MOVE_REFUSED, EventKind.MOVE_FINISHED, EventKind.LOAD_SHIFTED}
)
_COURSE = frozenset(
    {
        EventKind.REPLAYED,
        EventKind.FINISHING,
        EventKind.QUERY_FAILED,
        EventKind.SINK_FAILED,
        EventKind.SINK_RECOVERED,
        EventKind.SINK_GIVEN_UP,
        EventKind.QUERY_ADDED,
        EventKind.QUERY_DROPPED,
        EventKind.QUERY_REFUSED,
        EventKind.INGEST_RESTARTED,
        EventKind.EMPTY_FILES,
        EventKind.KAFKA_SILENT,
        EventKind.KAFKA_ANSWERS,
        EventKind.FINISHED,
        EventKind.STOPPED,
    }
)


@dataclass(frozen=True, slots=True)
class Event:
    """Something that happened in a run beside rows.

    Attributes
    ----------
    batch
        The batch after which it happened; in the simulator, the second. -1 before the first batch.
    data
        The numbers behind the message.

    Examples
    --------
    >>> Event(7, EventKind.PAUSED, "no more moves for 16 rounds").to_json()
    {'batch': 7, 'kind': 'paused', 'message': 'no more moves for 16 rounds'}
    """

    batch: int
    kind: EventKind
    message: str
    data: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def of_decision(cls, decision: Decision) -> Event:
        """Tell a decision: the move, the policy's reason and, if refused, why."""
        proposal = decision.proposal
        if decision.accepted:
            kind, message = EventKind.MOVE_ACCEPTED, f"{proposal.move}: {proposal.reason}"
        else:
            kind, message = EventKind.MOVE_REFUSED, f"{proposal.move} refused: {decision.why}"
        return cls(int(decision.at), kind, message, decision.to_json())

    def to_json(self) -> dict[str, Any]:
        return {"batch": self.batch, "kind": str(self.kind), "message": self.message, **self.data}

    def __str__(self) -> str:
        return f"batch {self.batch}: {self.kind}: {self.message}"


def instant(micros: int) -> str:
    """An event time, as messages tell it: in UTC.

    >>> instant(1_767_225_600_123_456)
    '2026-01-01 00:00:00.123'
    """
    return datetime.fromtimestamp(micros / 1e6, UTC).strftime("%Y-%m-%d %H:%M:%S.%f")[:-3]
