"""Events: what happened in a run beside rows, each with its reason."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Event:
    batch: int
    kind: str
    """A word to filter by: `started`, `replayed`, `query_failed`, `compacted`."""
    message: str

    def to_json(self) -> dict[str, Any]:
        return {"batch": self.batch, "kind": self.kind, "message": self.message}
