"""Where a checkpoint's files live: one small interface, and a POSIX directory behind it."""

from __future__ import annotations

import errno
import os
import secrets
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from anabranch.errors import StateError
from anabranch.state.layout import TEMPORARY, check_name, is_name


@dataclass(frozen=True, slots=True)
class FileInfo:
    """A stored file as a listing shows it."""

    name: str
    bytes: int
    modified_ns: int


class Storage(Protocol):
    """What a checkpoint needs of a file system or an object store.

    Names are relative, with slashes. Files are written once and never changed.
    """

    def put_if_absent(self, name: str, data: bytes) -> bool:
        """Store `data` durably and whole, or return False if `name` exists, then durable too."""

    def read(self, name: str) -> bytes:
        """Return the file's content; FileNotFoundError if there is none."""

    def list(self, folder: str) -> list[str]:
        """Return the names of all files below `folder`, sorted; "" is the root."""

    def scan(self, folder: str) -> Sequence[FileInfo]:
        """Return the same files as `list`, with size and time."""

    def delete(self, name: str) -> None:
        """Remove a file; one that is already gone is fine."""

    def local_path(self, name: str) -> Path:
        """Return where to write a big file named `name`; its folder exists."""


@dataclass(frozen=True, slots=True)
class PosixStorage:
    """A directory on a file system that has hard links.

    Only its root travels, so it can be sent to Python workers.
    """

    root: Path

    def put_if_absent(self, name: str, data: bytes) -> bool:
        """Store `data` under `name` unless it exists.

        A rename would overwrite and a plain create would show a half-written file; a link of
        a complete, synced temporary file does neither.
        """
        target = self.local_path(name)
        if target.exists():
            # Its writer may have died between naming it and syncing the name.
            sync_folder(target.parent)
            return False
        temporary = self.local_path(f"{TEMPORARY}/{target.name}.{secrets.token_hex(8)}")
        try:
            write_synced(temporary, data)
            return link_if_absent(temporary, target)
        finally:
            temporary.unlink(missing_ok=True)

    def read(self, name: str) -> bytes:
        """Return the file's content."""
        return (self.root / check_name(name)).read_bytes()

    def list(self, folder: str) -> list[str]:
        """Return the names of all files below `folder`, sorted."""
        return sorted(name for name, _ in self._walk(folder))

    def scan(self, folder: str) -> Sequence[FileInfo]:
        """Return all files below `folder` with size and modification time, sorted by name."""
        found = []
        for name, path in self._walk(folder):
            try:
                status = path.stat()
            except FileNotFoundError:
                continue  # deleted since it was listed
            found.append(FileInfo(name, status.st_size, status.st_mtime_ns))
        return sorted(found, key=lambda info: info.name)

    def delete(self, name: str) -> None:
        """Remove a file if it exists."""
        (self.root / check_name(name)).unlink(missing_ok=True)

    def local_path(self, name: str) -> Path:
        """Return the path of `name` and make sure that its folder exists."""
        path = self.root / check_name(name)
        make_folder(path.parent)
        return path

    def _walk(self, folder: str) -> Iterator[tuple[str, Path]]:
        top = self.root / check_name(folder) if folder else self.root
        for directory, _, files in os.walk(top):
            for file in files:
                path = Path(directory, file)
                name = path.relative_to(self.root).as_posix()
                if is_name(name):  # others were not written by us: leave them alone
                    yield name, path


def write_synced(path: Path, data: bytes | memoryview) -> None:
    """Create `path` with `data` and sync its content; the folder is the caller's to sync.

    A file that could not be written completely is removed.
    """
    with path.open("xb", buffering=0) as file:
        try:
            rest = memoryview(data)
            while rest:
                rest = rest[file.write(rest) :]
            os.fsync(file.fileno())
        except OSError:
            path.unlink(missing_ok=True)
            raise


def link_if_absent(source: Path, target: Path) -> bool:
    """Give a synced file a second name, durably; False if that name is taken, then durable too."""
    try:
        os.link(source, target)
    except FileExistsError:
        sync_folder(target.parent)
        return False
    except OSError as error:
        if error.errno in (errno.EPERM, errno.ENOTSUP, errno.EXDEV, errno.EMLINK):
            raise StateError(
                f"cannot link {source} to {target}: {error.strerror}. "
                "Both must lie on one file system that has hard links"
            ) from error
        raise
    sync_folder(target.parent)
    return True


def make_folder(folder: Path) -> None:
    """Create a folder and its parents so that they survive a power failure."""
    if folder.is_dir():
        return
    make_folder(folder.parent)
    folder.mkdir(exist_ok=True)
    sync_folder(folder.parent)


def sync_folder(folder: Path) -> None:
    """Make the names in a folder durable."""
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
