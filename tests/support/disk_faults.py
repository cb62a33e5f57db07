"""A disk that fails on purpose: stop the writer at any system call that changes something.

`FaultyStorage` sees the calls of the storage interface. Here every system call below it and in the sinks that
creates, fills, names, syncs or removes a file is a step, counted from 1, at which the process can die or the
machine lose its power. So is everything that is put into an object store in memory or deleted there; a store
does such a thing wholly or not at all, and keeps it when the power fails.
"""

from __future__ import annotations

import io
import os
import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any
from unittest.mock import patch

from anabranch.engine.sinks import folder_exchange
from anabranch.state.storage import Data
from anabranch.state.storage.object_store import MemoryStore
from tests.support.faults import SimulatedCrash

_real_unlink, _real_rmdir = os.unlink, os.rmdir
_real_exchange = folder_exchange.exchange_folders
_NAMING = ("link", "rename", "replace", "mkdir")
_REMOVING = ("unlink", "rmdir")


class DiskFault(StrEnum):
    """What becomes of the call at which the writer dies."""

    BEFORE = "before"  # it has no effect
    AFTER = "after"  # it has its whole effect, but nobody hears of it
    TEAR = "tear"  # half of the data reaches the file
    POWER = "power"  # what was not synced may be lost: data of files, and names in folders


@dataclass(slots=True)
class Disk:
    """The calls below `root`, and the one at which the writer dies; see `failing_disk`.

    After the crash every further change raises as well: a dead process writes nothing. With `only`, calls
    count whose path contains it.
    """

    root: Path
    crash_at: int | None = None
    fault: DiskFault = DiskFault.BEFORE
    seed: int = 0
    only: str = ""
    steps: list[str] = field(default_factory=list)
    dead: bool = False
    _unsynced_data: set[Path] = field(default_factory=set)
    _unsynced_names: set[Path] = field(default_factory=set)
    """New names whose folder was not synced since."""
    _unsynced_exchanges: list[tuple[Path, Path]] = field(default_factory=list)
    """Folders that have changed places, and whose own folder was not synced since."""

    def step(
        self, what: str, path: Path, call: Callable[[], Any], tear: Callable[[], Any] | None = None
    ) -> Any:
        """Do `call`, or die at it."""
        if self.dead:
            raise SimulatedCrash(f"dead since {self.steps[-1]}")
        if self.only not in str(path):
            return call()
        self.steps.append(f"{what} {path.name}")
        if len(self.steps) != self.crash_at:
            return call()
        self.dead = True
        if self.fault is DiskFault.AFTER:
            call()
        elif self.fault is DiskFault.TEAR and tear is not None:
            tear()
        elif self.fault is DiskFault.POWER:
            self._lose_power()
        raise SimulatedCrash(f"{self.fault} step {self.crash_at}: {self.steps[-1]}")

    def wrote(self, path: Path) -> None:
        self._unsynced_data.add(path)

    def named(self, path: Path) -> None:
        self._unsynced_names.add(path)

    def renamed(self, path: Path, target: Path, *, gone: bool) -> None:
        """Data that was not synced under one name is not under another either."""
        if path in self._unsynced_data:
            self._unsynced_data.add(target)
            if gone:
                self._unsynced_data.discard(path)

    def exchanged(self, one: Path, other: Path) -> None:
        self._unsynced_exchanges.append((one, other))

    def synced(self, path: Path) -> None:
        if path.is_dir():
            self._unsynced_exchanges = [e for e in self._unsynced_exchanges if e[1].parent != path]
            self._unsynced_names = {name for name in self._unsynced_names if name.parent != path}
        else:
            self._unsynced_data.discard(path)

    def removed(self, path: Path) -> None:
        self._unsynced_data.discard(path)
        self._unsynced_names.discard(path)

    def _lose_power(self) -> None:
        draw = random.Random(self.seed)
        for one, other in reversed(self._unsynced_exchanges):
            if draw.random() < 0.5 and one.exists() and other.exists():
                _real_exchange(one, other)
        for path in sorted(self._unsynced_data):
            if path.exists() and draw.random() < 0.7:
                os.truncate(path, draw.randint(0, path.stat().st_size))
        for path in sorted(self._unsynced_names, key=lambda p: -len(p.parts)):
            if draw.random() < 0.7 and path.exists():
                if not path.is_dir():
                    _real_unlink(path)
                elif not any(path.iterdir()):
                    _real_rmdir(path)

    def next_life(self, crash_at: int | None, fault: DiskFault) -> Disk:
        """The same disk under the next process: what the dead one did not sync is still not synced."""
        following = Disk(self.root, crash_at, fault, self.seed + 1, self.only)
        if not (self.dead and self.fault is DiskFault.POWER):
            following._unsynced_data |= self._unsynced_data
            following._unsynced_names |= self._unsynced_names
            following._unsynced_exchanges += self._unsynced_exchanges
        return following

    def ours(self, path: Any) -> Path | None:
        """The path if it is the root or lies below it, else None."""
        text = os.fspath(path)
        return Path(text) if isinstance(text, str) and f"{text}/".startswith(f"{self.root}/") else None


@contextmanager
def failing_disk(disk: Disk) -> Iterator[Disk]:  # noqa: C901 - one fake after the other
    """Count and fail the calls of this process below `disk.root` and to object stores in memory.

    Syncing costs nothing meanwhile.
    """
    real_open, real_fsync = io.open, os.fsync

    def open_file(file: Any, mode: str = "r", *args: Any, **kwargs: Any) -> Any:
        path = disk.ours(file) if isinstance(file, str | os.PathLike) else None
        if path is None or not set(mode) & set("wxa+"):
            return real_open(file, mode, *args, **kwargs)
        opened = disk.step("create", path, lambda: real_open(file, mode, *args, **kwargs))
        disk.named(path)
        disk.wrote(path)
        return _File(disk, path, opened)

    def fsync(handle: Any) -> None:
        number = handle if isinstance(handle, int) else handle.fileno()
        path = disk.ours(Path(f"/proc/self/fd/{number}").readlink())
        if path is None:
            real_fsync(handle)
            return
        disk.step("sync", path, lambda: None)
        disk.synced(path)

    def naming(name: str) -> Callable[..., Any]:
        real = getattr(os, name)

        def call(*args: Any, **kwargs: Any) -> Any:
            path = disk.ours(args[0 if name == "mkdir" else 1])
            if path is None or (disk.dead and name == "mkdir" and path.is_dir()):
                return real(*args, **kwargs)
            result = disk.step(name, path, lambda: real(*args, **kwargs))
            disk.named(path)
            if name != "mkdir":
                disk.renamed(Path(args[0]), path, gone=name != "link")
            return result

        return call

    def removing(name: str) -> Callable[..., Any]:
        real = getattr(os, name)

        def call(*args: Any, **kwargs: Any) -> Any:
            path = disk.ours(args[0])
            if path is None:
                return real(*args, **kwargs)
            result = disk.step(name, path, lambda: real(*args, **kwargs))
            disk.removed(path)
            return result

        return call

    def exchange(one: Path, other: Path) -> None:
        disk.step("exchange", other, lambda: _real_exchange(one, other))
        disk.exchanged(one, other)

    fakes: dict[str, Any] = {name: naming(name) for name in _NAMING}
    fakes |= {name: removing(name) for name in _REMOVING} | {"fsync": fsync}
    with (
        patch.object(io, "open", open_file),
        patch.multiple(os, **fakes),
        patch.object(folder_exchange, "exchange_folders", exchange),
        _failing_stores(disk),
    ):
        yield disk


@contextmanager
def _failing_stores(disk: Disk) -> Iterator[None]:
    real_put, real_delete = MemoryStore.put_if_absent, MemoryStore.delete

    def put_if_absent(store: MemoryStore, key: str, data: Data) -> Any:
        return disk.step("put", Path("/", key), lambda: real_put(store, key, data))

    def delete(store: MemoryStore, key: str) -> None:
        disk.step("delete", Path("/", key), lambda: real_delete(store, key))

    with patch.multiple(MemoryStore, put_if_absent=put_if_absent, delete=delete):
        yield


class _File:
    """A file open for writing whose writes are steps."""

    def __init__(self, disk: Disk, path: Path, file: Any) -> None:
        self._disk = disk
        self._path = path
        self._file = file

    def write(self, data: Any) -> Any:
        view = memoryview(data).cast("B") if not isinstance(data, str) else data

        def tear() -> None:
            self._file.write(view[: len(view) // 2])
            self._file.flush()

        return self._disk.step("write", self._path, lambda: self._file.write(view), tear)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)

    def __enter__(self) -> _File:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()
