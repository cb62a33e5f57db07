"""The block cache: local copies of stored files, so that they can be memory-mapped.

A file never changes, so that a copy is right or damaged, never old. It is written beside its name and
renamed: the workers of a machine share the directory. Nothing is synced: what a power failure leaves of it
is checked like everything else, and fetched again.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Callable, Iterable
from pathlib import Path

import xxhash

from anabranch.state.paths import check_name

CAPACITY = 8 << 30
"""Bytes of copies on this machine, unless one step needs more."""


class BlockCache:
    """Copies of the files of one checkpoint, in a directory of this machine."""

    def __init__(self, directory: Path, capacity: int = CAPACITY) -> None:
        self._directory = directory
        self._capacity = capacity
        self._checked: dict[str, str] = {}
        """Checksums of the copies that this process has checked."""
        self._needed: frozenset[str] = frozenset()

    def fetch(self, name: str, *, size: int, checksum: str, read: Callable[[str], bytes]) -> Path:
        """Return the path of a copy.

        A copy that this process meets for the first time is checked, and fetched again if it is damaged. What
        `read` gives is kept as it is: whoever opens it finds out.
        """
        path = self._directory / check_name(name)
        if self._checked.get(name) != checksum or not path.exists():
            if not _is_whole(path, size, checksum):
                _write(path, read(name))
                self._evict(spare=name)
            self._checked[name] = checksum
        return path

    def need(self, names: Iterable[str]) -> None:
        """Say what the step under way opens; the rest may go."""
        self._needed = frozenset(names)
        self._evict()

    def forget(self, name: str) -> None:
        """Remove a copy; whoever has it mapped keeps what is mapped."""
        self._checked.pop(name, None)
        (self._directory / check_name(name)).unlink(missing_ok=True)

    def _evict(self, spare: str = "") -> None:
        """Remove what no step needs, the oldest copies first, until the rest fits."""
        copies = self._copies()
        surplus = sum(size for _, size, _ in copies) - self._capacity
        for _, size, name in sorted(copies):
            if surplus <= 0:
                return
            if name != spare and name not in self._needed:
                self.forget(name)
                surplus -= size

    def _copies(self) -> list[tuple[int, int, str]]:
        """When they were fetched, sizes and names of all copies, those of other workers among them."""
        found = []
        for folder, _, files in os.walk(self._directory):
            for file in files:
                path = Path(folder, file)
                try:
                    status = path.stat()
                except FileNotFoundError:
                    continue  # evicted by another worker
                if not file.startswith("."):  # else it is being written
                    name = path.relative_to(self._directory).as_posix()
                    found.append((status.st_mtime_ns, status.st_size, name))
        return found


def _is_whole(path: Path, size: int, checksum: str) -> bool:
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        return False
    return len(data) == size and xxhash.xxh3_64_hexdigest(data) == checksum


def _write(path: Path, data: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    fresh = path.with_name(f".{path.name[:150]}.{secrets.token_hex(8)}")
    fresh.write_bytes(data)
    fresh.replace(path)
