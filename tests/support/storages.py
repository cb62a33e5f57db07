"""The storages that tests run over: a directory, or an object store in memory.

`ANABRANCH_STORAGE=object` runs every local session of the tests over the object store.
"""

from __future__ import annotations

import io
import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pyarrow as pa
import pyarrow.parquet as pq

from anabranch.engine import local_driver
from anabranch.state.storage import ObjectStorage, PosixStorage, Storage, object_storage, object_store
from anabranch.state.storage.object_store import make_store

KINDS = ("posix", "object")
CHOSEN = os.environ.get("ANABRANCH_STORAGE", "posix")
assert CHOSEN in KINDS, f"ANABRANCH_STORAGE={CHOSEN}: choose from {', '.join(KINDS)}"
_NAME, _CACHE = "object-store", "block-cache"


def storage_at(root: Path, kind: str = CHOSEN) -> Storage:
    """The storage that belongs to a directory; whoever asks again finds what is in it."""
    return PosixStorage(root) if kind == "posix" else _object_storage(root)


def _object_storage(root: Path) -> ObjectStorage:
    """An object store that is there as long as its directory is, which holds nothing but copies."""
    note = root / _NAME
    if not note.exists():
        root.mkdir(parents=True, exist_ok=True)
        note.write_text(f"{root.name}-{secrets.token_hex(4)}")
    name = note.read_text()
    make_store(name)
    return ObjectStorage(name, root / _CACHE)


def forget_copies() -> None:
    """Drop what a new process does not know of the copies in its cache."""
    object_storage._caches.clear()


@contextmanager
def local_runs_over(kind: str) -> Iterator[None]:
    """Local runs that are given a directory use such a storage."""
    with patch.object(local_driver, "PosixStorage", lambda root: storage_at(root, kind)):
        yield


def forget_stores() -> None:
    """Give the memory of all object stores back."""
    object_store._stores.clear()
    forget_copies()


def stored_rows(storage: Storage, folder: str) -> list[dict[str, Any]]:
    """The rows of all parquet files in a folder."""
    return [row for table in stored_tables(storage, folder) for row in table.to_pylist()]


def stored_tables(storage: Storage, folder: str) -> list[pa.Table]:
    """All parquet files in a folder."""
    return [pq.read_table(io.BytesIO(storage.read(name))) for name in storage.list(folder)]
