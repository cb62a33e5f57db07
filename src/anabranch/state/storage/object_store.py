"""What every object store can do, and one that lives in the memory of this process."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Protocol

from anabranch.errors import StateError
from anabranch.state.storage.storage import Data, FileInfo


class ObjectStore(Protocol):
    """Four operations, each of them atomic, durable and seen by everyone once it returns."""

    def put_if_absent(self, key: str, data: Data) -> bool:
        """Store an object; False if there is one."""

    def get(self, key: str) -> bytes:
        """Return an object; FileNotFoundError if there is none."""

    def list(self, prefix: str) -> Sequence[FileInfo]:
        """Return the objects whose keys begin so, with their sizes, sorted."""

    def delete(self, key: str) -> None:
        """Remove an object; one that is already gone is fine."""


class MemoryStore:
    """An object store in the memory of this process."""

    def __init__(self) -> None:
        self._objects: dict[str, bytes] = {}
        self._turn = threading.Lock()

    def put_if_absent(self, key: str, data: Data) -> bool:
        """Store a copy of `data` unless the key is taken."""
        with self._turn:
            if key in self._objects:
                return False
            self._objects[key] = bytes(data)
            return True

    def get(self, key: str) -> bytes:
        """Return an object."""
        try:
            return self._objects[key]
        except KeyError:
            raise FileNotFoundError(key) from None

    def list(self, prefix: str) -> Sequence[FileInfo]:
        """Return the objects below a prefix."""
        with self._turn:
            keys = sorted(key for key in self._objects if key.startswith(prefix))
            return [FileInfo(key, len(self._objects[key])) for key in keys]

    def delete(self, key: str) -> None:
        """Remove an object if it exists."""
        with self._turn:
            self._objects.pop(key, None)


_stores: dict[str, MemoryStore] = {}


def make_store(name: str) -> MemoryStore:
    """Return the store of this name, a new one if there is none."""
    return _stores.setdefault(name, MemoryStore())


def open_store(name: str) -> MemoryStore:
    """Return the store of this name.

    Raises
    ------
    StateError
        There is none in this process.
    """
    if name not in _stores:
        raise StateError(
            f"there is no object store {name!r} in this process: a store in memory serves the process that "
            "made it, not Spark's workers. Give a directory that all of them see"
        )
    return _stores[name]


def drop_store(name: str) -> None:
    """Forget a store and all that is in it."""
    _stores.pop(name, None)
