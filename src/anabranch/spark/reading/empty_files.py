"""Empty files: Spark reads nothing from a source file of zero bytes and says nothing; we say so."""

from __future__ import annotations

import json
from pathlib import Path
from urllib.parse import unquote, urlsplit

from anabranch.adapt.events import Event, EventKind
from anabranch.spark.checkpoint import SPARK_CHECKPOINT


class EmptyFiles:
    """Looks through the files that Spark's file sources have taken up since the last look.

    Every such source has a log in Spark's checkpoint, one file per take-up, numbered from 0.
    """

    def __init__(self, checkpoint: Path) -> None:
        self._sources = checkpoint / SPARK_CHECKPOINT / "sources"
        self._next: dict[Path, int] = {}
        for folder in self._folders():
            numbers = (int(name) for f in folder.iterdir() if (name := f.name.split(".")[0]).isdecimal())
            self._next[folder] = max(numbers, default=-1) + 1

    def events(self, batch: int) -> list[Event]:
        """Tell of files without bytes, where this machine can see them."""
        found = [path for folder in self._folders() for path in self._taken_up(folder) if _is_empty(path)]
        if not found:
            return []
        files = f"{found[0]} has" if len(found) == 1 else f"{found[0]} and {len(found) - 1} other files have"
        message = (
            f"{files} 0 bytes and no rows. Spark has taken note of the name: what is written there later is "
            "not read. Move files into the folder when they are complete"
        )
        return [Event(batch, EventKind.EMPTY_FILES, message, {"files": [str(path) for path in found]})]

    def _folders(self) -> list[Path]:
        return sorted(f for f in self._sources.glob("*") if f.is_dir())

    def _taken_up(self, folder: Path) -> list[Path]:
        paths = []
        number = self._next.get(folder, 0)
        while (lines := _entries(folder, number)) is not None:
            # Every tenth log repeats those before it.
            mine = (entry for line in lines if (entry := json.loads(line))["batchId"] == number)
            paths += [Path(unquote(urlsplit(e["path"]).path)) for e in mine if e["path"].startswith("file:")]
            number += 1
        self._next[folder] = number
        return paths


def _entries(folder: Path, number: int) -> list[str] | None:
    """Lines of a log that speak of its own number, after the first, which has the format's version."""
    for name in (str(number), f"{number}.compact"):
        try:
            lines = (folder / name).read_text().splitlines()[1:]
        except OSError:
            continue
        return [line for line in lines if line.startswith('{"path":') and f'"batchId":{number}' in line]
    return None


def _is_empty(path: Path) -> bool:
    try:
        return path.stat().st_size == 0
    except OSError:
        return False
