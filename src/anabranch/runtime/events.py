"""Events: what happened in a run beside rows, each with its reason."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class Event:
    batch: int
    kind: str
    """A word to filter by: `replayed`, `finishing`, `query_failed`, or one of `adapt.events.EventKind`."""
    message: str
    data: Mapping[str, Any] = field(default_factory=dict)
    """The numbers behind the message."""

    def to_json(self) -> dict[str, Any]:
        return {"batch": self.batch, "kind": self.kind, "message": self.message, **self.data}
