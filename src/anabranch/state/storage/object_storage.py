"""A checkpoint in an object store: put-if-absent, get, list and delete, with a block cache in front."""

from __future__ import annotations

import io
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from anabranch.state.paths import check_name
from anabranch.state.storage.block_cache import CAPACITY, BlockCache
from anabranch.state.storage.lease import Lease
from anabranch.state.storage.local_files import write_whole
from anabranch.state.storage.object_store import ObjectStore, open_store
from anabranch.state.storage.storage import Data, FileInfo


@dataclass(frozen=True, slots=True)
class ObjectStorage:
    """The objects of a store, as files. Only names travel to Python workers.

    Attributes
    ----------
    store
        Name of the object store.
    cache
        Directory of this machine for copies of what is memory-mapped.
    cache_bytes
        What the copies may take up.
    """

    store: str
    cache: Path
    cache_bytes: int = CAPACITY

    def put_if_absent(self, name: str, data: Data, *, durable: bool = True) -> bool:
        """Store an object; stores keep what they have accepted."""
        return self._objects.put_if_absent(check_name(name), data)

    def read(self, name: str) -> bytes:
        """Return an object."""
        return self._objects.get(check_name(name))

    def list(self, folder: str) -> list[str]:
        """Return the names of all objects below `folder`."""
        return [info.name for info in self.scan(folder)]

    def scan(self, folder: str) -> Sequence[FileInfo]:
        """Return all objects below `folder` with their sizes."""
        return self._objects.list(f"{check_name(folder)}/" if folder else "")

    def delete(self, name: str) -> None:
        """Remove an object, and its copy."""
        self._objects.delete(check_name(name))
        self._copies.forget(name)

    def put_new(self, name: str, data: Data) -> None:
        """Store an object under a name of its own."""
        if not self.put_if_absent(name, data):
            raise FileExistsError(name)

    def upload(self, name: str) -> ObjectUpload:
        """Collect an object that is stored at the end."""
        return ObjectUpload(self, check_name(name))

    def link(self, source: str, target: str) -> bool:
        """Store a copy of an object."""
        return self.put_if_absent(target, self.read(source))

    def append(self, name: str, data: Data, *, most_bytes: int) -> None:
        """Put the lines into the next piece of the log; delete the oldest ones of two full logs."""
        pieces = self.scan(check_name(name))
        number = int(pieces[-1].name.rpartition("/")[2]) + 1 if pieces else 0
        while not self.put_if_absent(f"{name}/{number:012d}", data):
            number += 1
        surplus = sum(piece.bytes for piece in pieces) + len(data) - 2 * most_bytes
        for piece in pieces:
            if surplus <= 0:
                return
            self.delete(piece.name)
            surplus -= piece.bytes

    def read_log(self, name: str) -> bytes:
        """Return all pieces of a log."""
        return b"".join(map(self.read, self.list(name)))

    def fetch(self, name: str, *, size: int, checksum: str) -> Path:
        """Return a local copy."""
        return self._copies.fetch(name, size=size, checksum=checksum, read=self.read)

    def need_local(self, names: Iterable[str]) -> None:
        """Keep copies of these; others may go."""
        self._copies.need(names)

    def export(self, name: str, target: Path) -> None:
        """Copy an object into a directory."""
        write_whole(io.BytesIO(self.read(name)), target)

    def hold(self) -> Lease:
        """Take the lease on the checkpoint."""
        return Lease(self._objects)

    @property
    def _objects(self) -> ObjectStore:
        return open_store(self.store)

    @property
    def _copies(self) -> BlockCache:
        if self not in _caches:
            _caches[self] = BlockCache(self.cache, self.cache_bytes)
        return _caches[self]


_caches: dict[ObjectStorage, BlockCache] = {}
"""What this process knows of its copies."""


class ObjectUpload:
    """An object that is put together in memory: a store takes it as a whole."""

    def __init__(self, storage: ObjectStorage, name: str) -> None:
        self._storage = storage
        self._name = name
        self._content = io.BytesIO()

    def write(self, data: Data) -> None:
        """Add to the end."""
        self._content.write(data)

    def seal(self) -> None:
        """Store the object."""
        self._storage.put_new(self._name, self._content.getbuffer())
