"""A file of results as sinks are given it."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from anabranch.state.manifest import ResultFile
from anabranch.state.paths import STAGED
from anabranch.state.storage import Storage


@dataclass(frozen=True, slots=True)
class StagedFile:
    """A file of results of a committed step: a path to read from, until the sink returns."""

    storage: Storage
    file: ResultFile
    folder: str = STAGED
    """Where it lies in the checkpoint."""

    def __fspath__(self) -> str:
        """Return where this machine can read it."""
        file = self.file
        return os.fspath(self.storage.fetch(self._name, size=file.bytes, checksum=file.checksum).absolute())

    def export(self, target: Path) -> None:
        """Give it a name in a directory of the sink, durably; without a copy where that is possible."""
        self.storage.export(self._name, target)

    @property
    def _name(self) -> str:
        return f"{self.folder}/{self.file.name}"
