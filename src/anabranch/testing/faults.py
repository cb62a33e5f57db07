"""Storage that fails on purpose: stop the writer at any step of a commit."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path

from anabranch.state.layout import TEMPORARY
from anabranch.state.storage import FileInfo, Storage


class SimulatedCrash(BaseException):
    """The writer died here."""


class Fault(StrEnum):
    """What becomes of the call at which the writer dies."""

    BEFORE = "before"  # it has no effect
    AFTER = "after"  # it has its whole effect, but nobody hears of it
    TEAR = "tear"  # half of the data reaches the disk


@dataclass(slots=True)
class FaultyStorage:
    """A storage whose `crash_at`-th mutating call, counted from 1, kills the writer.

    After the crash every further mutating call raises as well: a dead process writes nothing.
    """

    inner: Storage
    crash_at: int | None = None
    fault: Fault = Fault.BEFORE
    calls: list[str] = field(default_factory=list)

    def put_if_absent(self, name: str, data: bytes) -> bool:
        """Store, or die."""
        dies = self._count(f"put {name}")
        if dies and self.fault is Fault.TEAR:
            torn = self.inner.local_path(f"{TEMPORARY}/torn-{len(self.calls)}")
            torn.write_bytes(data[: len(data) // 2])
        stored = self.fault is Fault.AFTER or not dies
        result = self.inner.put_if_absent(name, data) if stored else False
        self._die_if(dies)
        return result

    def delete(self, name: str) -> None:
        """Delete, or die."""
        dies = self._count(f"delete {name}")
        if self.fault is Fault.AFTER or not dies:
            self.inner.delete(name)
        self._die_if(dies)

    def read(self, name: str) -> bytes:
        """Read."""
        return self.inner.read(name)

    def list(self, folder: str) -> list[str]:
        """List."""
        return self.inner.list(folder)

    def scan(self, folder: str) -> Sequence[FileInfo]:
        """List with sizes."""
        return self.inner.scan(folder)

    def local_path(self, name: str) -> Path:
        """Locate."""
        return self.inner.local_path(name)

    def _count(self, call: str) -> bool:
        if self.crash_at is not None and len(self.calls) >= self.crash_at:
            raise SimulatedCrash(f"dead since {self.calls[-1]}")
        self.calls.append(call)
        return len(self.calls) == self.crash_at

    def _die_if(self, dies: bool) -> None:
        if dies:
            raise SimulatedCrash(f"{self.fault} {self.calls[-1]}")
