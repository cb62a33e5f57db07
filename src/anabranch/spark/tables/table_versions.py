"""Which version of every table a batch uses: what was written down for it, or what is offered now.

Without Spark, for it runs in tasks.
"""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa

COPIES, NOTES, OFFERS = "tables/copies", "tables/notes", "tables/offers"
Versions = dict[str, dict[str, Any]]
"""By table: the version's name, its file in the checkpoint, its number of rows."""


def version_rows(root: Path, batch: int, table: str) -> Iterator[pa.RecordBatch]:
    """Rows of the version that a batch uses, which is decided by whoever asks first; runs in a task."""
    version = noted_versions(root, batch)[table]
    with pa.memory_map(str(root / version["file"])) as file, pa.ipc.open_file(file) as reader:
        for number in range(reader.num_record_batches):
            yield reader.get_batch(number)


def noted_versions(root: Path, batch: int) -> Versions:
    """The versions that a batch uses: those written down for it, or else those that are offered now."""
    note = root / NOTES / note_name(batch)
    found = read_versions(note)
    if found is None:
        newest = max(path for path in (root / OFFERS).iterdir() if path.suffix == ".json")
        # Written whole under a name of its own first: a note is never seen half.
        draft = note.with_name(f"{note.name}.{os.getpid()}.{threading.get_ident()}")
        note.parent.mkdir(parents=True, exist_ok=True)
        draft.write_bytes(newest.read_bytes())
        try:
            os.link(draft, note)
        except FileExistsError:
            pass
        finally:
            draft.unlink()
        found = read_versions(note)
    assert found is not None
    return found


def note_name(batch: int) -> str:
    """File of the note about a batch."""
    return f"{batch:010d}.json"


def read_versions(path: Path) -> Versions | None:
    """The versions in a note or an offer; None where there is none."""
    try:
        found: Versions = json.loads(path.read_text())
    except FileNotFoundError:
        return None
    return found
