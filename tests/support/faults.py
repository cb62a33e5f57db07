"""Storage that fails on purpose: stop the writer at any step of a commit."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any

from anabranch.state.paths import TEMPORARY
from anabranch.state.storage import Data, PosixStorage, Storage


class SimulatedCrash(BaseException):
    """The writer died here."""


class Fault(StrEnum):
    """What becomes of the call at which the writer dies."""

    BEFORE = "before"  # it has no effect
    AFTER = "after"  # it has its whole effect, but nobody hears of it
    TEAR = "tear"  # half of the data reaches the disk


@dataclass(slots=True, eq=False)
class FaultyStorage:
    """A storage whose `crash_at`-th call that changes something, counted from 1, kills the writer.

    After the crash every further such call raises as well: a dead process writes nothing.
    """

    inner: Storage
    crash_at: int | None = None
    fault: Fault = Fault.BEFORE
    calls: list[str] = field(default_factory=list)

    def put_if_absent(self, name: str, data: Data, *, durable: bool = True) -> bool:
        """Store, or die; on a disk with a torn temporary file."""
        torn = f"{TEMPORARY}/{name.rpartition('/')[2]}.torn"
        done: bool = self._call(
            f"put {name}",
            lambda: self.inner.put_if_absent(name, data, durable=durable),
            tear=lambda: self._write_torn(torn, data),
        )
        return done

    def put_new(self, name: str, data: Data) -> None:
        """Store in place, or die; on a disk in the middle."""
        self._call(
            f"put {name}",
            lambda: self.inner.put_new(name, data),
            tear=lambda: self._write_torn(name, data),
        )

    def export(self, name: str, target: Path) -> None:
        """Publish, or die."""
        self._call(f"export {name}", lambda: self.inner.export(name, target))

    def delete(self, name: str) -> None:
        """Delete, or die."""
        self._call(f"delete {name}", lambda: self.inner.delete(name))

    def __getattr__(self, name: str) -> Any:
        """Reading changes nothing."""
        if name not in ("read", "list", "scan", "fetch", "need_local"):
            raise AttributeError(name)
        return getattr(self.inner, name)

    def _call(self, what: str, call: Callable[[], Any], tear: Callable[[], None] | None = None) -> Any:
        if self.crash_at is not None and len(self.calls) >= self.crash_at:
            raise SimulatedCrash(f"dead since {self.calls[-1]}")
        self.calls.append(what)
        if len(self.calls) != self.crash_at:
            return call()
        if self.fault is Fault.AFTER:
            call()
        elif self.fault is Fault.TEAR and tear is not None:
            tear()
        raise SimulatedCrash(f"{self.fault} {what}")

    def _write_torn(self, name: str, data: Data) -> None:
        """Leave half of a file on a disk; an object store takes all or nothing."""
        if isinstance(self.inner, PosixStorage):
            path = self.inner.root / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data[: len(data) // 2])
