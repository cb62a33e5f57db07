"""The log of decisions: one JSON object per line, for whoever follows a session from outside."""

from __future__ import annotations

import json
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from anabranch.adapt.events import AdaptEvent

EVENT_LOG = "events.jsonl"
"""File of the checkpoint. The manifest keeps the latest events, too, as exactly as everything in it."""
OLDER_LOG = "events.older.jsonl"
"""What the log was before it was begun anew."""
MOST_BYTES = 16 << 20
"""Of a log; then it is begun anew."""


def log_events(checkpoint: Path, events: Iterable[AdaptEvent]) -> None:
    """Append what was decided at a boundary.

    After its commit, so that a crash may lose the last lines; and a disk that refuses them ends no session.
    """
    lines = [json.dumps(event.to_json()) + "\n" for event in events]
    if not lines:
        return
    path = checkpoint / EVENT_LOG
    with suppress(OSError):
        if path.exists() and path.stat().st_size >= MOST_BYTES:
            path.replace(checkpoint / OLDER_LOG)
        with path.open("a", encoding="utf-8") as log:
            log.writelines(lines)
