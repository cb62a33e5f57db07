"""A checkpoint in a directory: hard links, syncs, a file lock, and files that are mapped where they lie."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from anabranch.state.paths import LOCK, TEMPORARY, check_name, is_name, older_log
from anabranch.state.storage.file_lock import FileLock
from anabranch.state.storage.local_files import (
    link_if_absent,
    make_folder,
    sync_folder,
    write_synced,
    write_whole,
)
from anabranch.state.storage.storage import Data, FileInfo


@dataclass(frozen=True, slots=True)
class PosixStorage:
    """A directory on a file system that has hard links. Only its root travels to Python workers."""

    root: Path

    def put_if_absent(self, name: str, data: Data, *, durable: bool = True) -> bool:
        """Store `data` under `name` unless it exists.

        A rename would overwrite and a plain create would show a half-written file; a link of
        a complete, synced temporary file does neither. A file without content needs none of it.
        """
        target = self._place(name)
        if not data:
            return _create_empty(target, durable=durable)
        if target.exists():
            # Its writer may have died between naming it and syncing the name.
            sync_folder(target.parent)
            return False
        temporary = self._place(f"{TEMPORARY}/{target.name}.{secrets.token_hex(8)}")
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
        """Return all files below `folder` with their sizes, sorted by name."""
        found = []
        for name, path in self._walk(folder):
            with suppress(FileNotFoundError):  # deleted since it was listed
                found.append(FileInfo(name, path.stat().st_size))
        return sorted(found, key=lambda info: info.name)

    def delete(self, name: str) -> None:
        """Remove a file if it exists."""
        (self.root / check_name(name)).unlink(missing_ok=True)

    def put_new(self, name: str, data: Data) -> None:
        """Write a file in place: nobody looks for it before its writer has told its name."""
        path = self._place(name)
        write_synced(path, data)
        sync_folder(path.parent)

    def upload(self, name: str) -> PosixUpload:
        """Write a file in place, piece by piece."""
        return PosixUpload(self._place(name))

    def link(self, source: str, target: str) -> bool:
        """Give a file a second name."""
        return link_if_absent(self.root / check_name(source), self._place(target))

    def append(self, name: str, data: Data, *, most_bytes: int) -> None:
        """Append to one file, which others may follow while it grows."""
        path = self._place(name)
        if path.exists() and path.stat().st_size >= most_bytes:
            path.replace(self.root / older_log(name))
        with path.open("ab") as log:
            log.write(data)

    def read_log(self, name: str) -> bytes:
        """Return the log before this one, and this one."""
        paths = (self.root / older_log(name), self.root / check_name(name))
        return b"".join(path.read_bytes() for path in paths if path.exists())

    def fetch(self, name: str, *, size: int, checksum: str) -> Path:
        """Return the file itself."""
        return self.root / check_name(name)

    def need_local(self, names: Iterable[str]) -> None:
        """Nothing: there are no copies."""

    def export(self, name: str, target: Path) -> None:
        """Link a file to a name outside, or copy it to another file system."""
        source = self.root / check_name(name)
        if source.stat().st_dev == target.parent.stat().st_dev:
            link_if_absent(source, target)
        else:
            with source.open("rb") as file:
                write_whole(file, target)

    def hold(self) -> FileLock:
        """Lock the checkpoint for this process."""
        return FileLock(self._place(LOCK))

    def _place(self, name: str) -> Path:
        """Return the path of a file and make sure that its folder exists."""
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


class PosixUpload:
    """A file that is written in place and synced at the end."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file = path.open("xb")

    def write(self, data: Data) -> None:
        """Add to the end."""
        self._file.write(data)

    def seal(self) -> None:
        """Sync the content, then the name."""
        self._file.flush()
        os.fsync(self._file.fileno())
        self._file.close()
        sync_folder(self._path.parent)


def _create_empty(path: Path, *, durable: bool) -> bool:
    try:
        path.open("xb").close()
    except FileExistsError:
        created = False
    else:
        created = True
    if durable:
        sync_folder(path.parent)
    return created
