"""What workers have been told once: the constants, and who has come and gone since."""

from __future__ import annotations

from anabranch.engine.live.prepared import Prepared
from anabranch.engine.task.worker.constants import (
    ConstantsFile,
    forget_constants,
    keep_constants,
    keep_roster_change,
)
from anabranch.state import Stamp, Storage


class ToldConstants:
    """Files in which the workers of a session find what stays from step to step."""

    def __init__(self, storage: Storage) -> None:
        self._storage = storage
        self._constants: ConstantsFile | None = None
        self._roster: tuple[ConstantsFile, ...] = ()

    def begin_anew(self) -> None:
        """Other constants hold from now on."""
        self._constants, self._roster = None, ()

    def of(self, prepared: Prepared, stamp: Stamp) -> tuple[ConstantsFile, tuple[ConstantsFile, ...]]:
        """Write what is not written yet, and tell where all of it is."""
        if self._constants is None:
            self._constants = keep_constants(self._storage, prepared.compiled, stamp)
        for change in prepared.roster[len(self._roster) :]:
            self._roster = (*self._roster, keep_roster_change(self._storage, change, stamp))
        return self._constants, self._roster

    def forget_others(self, named: tuple[ConstantsFile, ...]) -> None:
        """Remove all files but these, which the last step has named."""
        forget_constants(self._storage, named)
