"""The logs of a checkpoint: events and progress, one JSON object per line, for who follows from outside."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Any

from anabranch.adapt.events import Event
from anabranch.engine.listener import Listener
from anabranch.engine.progress import Progress
from anabranch.state.storage import Storage

EVENT_LOG = "events.jsonl"
"""File of the checkpoint. The manifest keeps the latest decisions, too, as exactly as everything in it."""
PROGRESS_LOG = "progress.jsonl"
MOST_BYTES = 16 << 20
"""Of a log; then it is begun anew, and the one before is kept. So each takes twice as much at most."""


class JsonLog(Listener):
    """Writes `events.jsonl` and `progress.jsonl`.

    After a commit, so that a crash may lose the last lines; and a disk that refuses them ends no session.
    """

    def __init__(self, storage: Storage) -> None:
        self._storage = storage

    def on_event(self, event: Event) -> None:
        self._append(EVENT_LOG, event.to_json())

    def on_progress(self, progress: Progress) -> None:
        self._append(PROGRESS_LOG, progress.to_json())

    def _append(self, log: str, record: Mapping[str, Any]) -> None:
        line = json.dumps(record, ensure_ascii=False) + "\n"
        with suppress(OSError):
            self._storage.append(log, line.encode(), most_bytes=MOST_BYTES)


def read_log(storage: Storage, log: str) -> Iterator[dict[str, Any]]:
    """All records that are left, oldest first; lines that a crash has torn are left out."""
    with suppress(OSError):
        for line in storage.read_log(log).decode(errors="replace").splitlines():
            with suppress(ValueError):
                yield json.loads(line)
