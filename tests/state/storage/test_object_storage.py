"""What an object store must do without: files, locks, appending."""

from __future__ import annotations

from pathlib import Path

import pytest

from anabranch.errors import StateError
from anabranch.state.block import map_block
from anabranch.state.errors import CorruptionError
from anabranch.state.storage import ObjectStorage
from anabranch.state.storage.object_store import drop_store, make_store
from tests.state.samples import overwrite, sample_block


@pytest.fixture
def storage(tmp_path: Path) -> ObjectStorage:
    name = str(tmp_path)
    make_store(name)
    return ObjectStorage(name, tmp_path / "cache")


def test_a_store_in_memory_does_not_exist_in_another_process(storage: ObjectStorage) -> None:
    drop_store(storage.store)  # as in a worker of Spark
    with pytest.raises(StateError, match="a store in memory serves the process that made it"):
        storage.list("")


def test_a_block_is_fetched_once_and_mapped_from_the_cache(
    storage: ObjectStorage, monkeypatch: pytest.MonkeyPatch
) -> None:
    meta = sample_block(storage, rows=1000)
    reads: list[str] = []
    real = ObjectStorage.read
    monkeypatch.setattr(ObjectStorage, "read", lambda self, name: reads.append(name) or real(self, name))
    blocks = [map_block(storage, meta) for _ in range(3)]
    assert reads == [f"blocks/{meta.name}"]
    assert str(storage.cache / reads[0]) in Path("/proc/self/maps").read_text()
    assert all(block.num_rows == 1000 for block in blocks)


def test_a_damaged_object_is_found_before_anything_is_read_from_it(storage: ObjectStorage) -> None:
    meta = sample_block(storage)
    name = f"blocks/{meta.name}"
    data = bytearray(storage.read(name))
    data[len(data) // 2] ^= 1
    overwrite(storage, name, bytes(data))
    with pytest.raises(CorruptionError, match="checksum"):
        map_block(storage, meta)
    overwrite(storage, name, bytes(data[:-1]))
    with pytest.raises(CorruptionError, match=f"expected {meta.bytes} bytes, found {meta.bytes - 1}"):
        map_block(storage, meta)


def test_a_deleted_object_leaves_no_copy(storage: ObjectStorage) -> None:
    meta = sample_block(storage)
    map_block(storage, meta)
    storage.delete(f"blocks/{meta.name}")
    assert not [path for path in storage.cache.rglob("*") if path.is_file()]
