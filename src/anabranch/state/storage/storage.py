"""What a checkpoint needs of the place where its files live."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

Data = bytes | memoryview


@dataclass(frozen=True, slots=True)
class FileInfo:
    """A stored file as a listing shows it."""

    name: str
    bytes: int


class Upload(Protocol):
    """A new file that is written piece by piece; nobody relies on it before it is sealed."""

    def write(self, data: Data) -> None:
        """Add to the end."""

    def seal(self) -> None:
        """Make the file durable under its name."""


class Hold(Protocol):
    """The exclusive right to write; see `Storage.hold`."""

    def sign(self, epoch: int) -> None:
        """Tell those who are refused that the holder is the writer of this epoch."""

    def release(self) -> None:
        """Let others have it; idempotent."""


class Storage(Protocol):
    """The files of a checkpoint, on a file system or in an object store.

    Names are relative, with slashes. A file is written once and never changed. The first group of methods is
    what every store has; the second is made of the first where there is nothing better.

    An implementation is a small, hashable handle: it travels to Python workers with every task.
    """

    def __hash__(self) -> int:
        """Equal handles open the same files."""

    def put_if_absent(self, name: str, data: Data, *, durable: bool = True) -> bool:
        """Store `data` whole, or return False if `name` exists, then durable too.

        Without `durable` a power failure may take it away again, whole.
        """

    def read(self, name: str) -> bytes:
        """Return the file's content; FileNotFoundError if there is none."""

    def list(self, folder: str) -> list[str]:
        """Return the names of all files below `folder`, sorted; "" is the root."""

    def scan(self, folder: str) -> Sequence[FileInfo]:
        """Return the same files as `list`, with their sizes."""

    def delete(self, name: str) -> None:
        """Remove a file; one that is already gone is fine."""

    def put_new(self, name: str, data: Data) -> None:
        """Store a big file durably under a name that nobody else uses; FileExistsError if one does."""

    def upload(self, name: str) -> Upload:
        """Write a big file piece by piece, under a name that nobody else uses."""

    def link(self, source: str, target: str) -> bool:
        """Give a stored file a second name, durably; False if that name is taken."""

    def append(self, name: str, data: Data, *, most_bytes: int) -> None:
        """Add whole lines to a log. A crash may lose the last ones, and the oldest go when there are many.

        Parameters
        ----------
        most_bytes
            When the log has so many, it is begun anew; the one before it is kept.
        """

    def read_log(self, name: str) -> bytes:
        """Return what is kept of a log, the oldest lines first."""

    def fetch(self, name: str, *, size: int, checksum: str) -> Path:
        """Return where this machine can open the file; it need not be what was written: check it.

        Parameters
        ----------
        size, checksum
            Bytes and hexadecimal xxh3_64 of the file: a local copy is replaced unless it has these.
        """

    def need_local(self, names: Iterable[str]) -> None:
        """Say which files the step under way opens: local copies of others may be evicted."""

    def export(self, name: str, target: Path) -> None:
        """Give a file to a directory outside the checkpoint: durable, and seen whole or not at all."""

    def hold(self) -> Hold:
        """Become the only writer; CheckpointInUseError, with the holder's name, if there is one."""
