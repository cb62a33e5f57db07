from __future__ import annotations

import errno
import os
import pickle
import stat
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from tests.state.samples import sample_block

from anabranch.errors import StateError
from anabranch.state.errors import InvalidNameError
from anabranch.state.storage import PosixStorage, link_if_absent, write_synced


@pytest.fixture
def storage(tmp_path: Path) -> PosixStorage:
    return PosixStorage(tmp_path / "ck")


def test_a_stored_file_reads_back_and_leaves_nothing_temporary(storage: PosixStorage) -> None:
    assert storage.put_if_absent("manifests/a.json", b"one")
    assert storage.read("manifests/a.json") == b"one"
    assert storage.list("") == ["manifests/a.json"]


def test_a_name_is_never_overwritten(storage: PosixStorage) -> None:
    assert storage.put_if_absent("a", b"first")
    assert not storage.put_if_absent("a", b"second")
    assert storage.read("a") == b"first"


def test_of_many_concurrent_writers_exactly_one_wins(storage: PosixStorage) -> None:
    with ThreadPoolExecutor(8) as pool:
        for round_ in range(20):
            won = list(
                pool.map(lambda i, r=round_: storage.put_if_absent(f"m/{r}", bytes([i]) * 100), range(8))
            )
            assert sum(won) == 1
            assert storage.read(f"m/{round_}") == bytes([won.index(True)]) * 100
    assert storage.list("tmp") == []


@pytest.mark.parametrize(
    "name",
    [
        "",
        "/etc/passwd",
        "..",
        "../outside",
        "blocks/../../outside",
        "blocks/./a",
        "blocks//a",
        "blocks/",
        ".hidden",
        "a\\b",
        "a\x00b",
        "a\n",
        "a b",
        "~root",
        "é",
        "x" * 300,
    ],
)
def test_a_name_that_could_leave_the_root_is_refused_by_every_method(
    storage: PosixStorage, name: str
) -> None:
    for call in (storage.read, storage.delete, storage.local_path):
        with pytest.raises(InvalidNameError):
            call(name)
    with pytest.raises(InvalidNameError):
        storage.put_if_absent(name, b"")
    if name:
        with pytest.raises(InvalidNameError):
            storage.list(name)


def test_listing_is_recursive_sorted_and_limited_to_the_folder(storage: PosixStorage) -> None:
    for name in ("blocks/b", "blocks/site-1/a", "blocks/a", "blocks2/x", "top"):
        storage.put_if_absent(name, b"123")
    assert storage.list("blocks") == ["blocks/a", "blocks/b", "blocks/site-1/a"]
    assert [info.bytes for info in storage.scan("blocks")] == [3, 3, 3]
    assert storage.list("nothing") == []


def test_files_of_others_are_not_listed(storage: PosixStorage) -> None:
    storage.put_if_absent("blocks/a", b"")
    (storage.root / "blocks" / ".nfs0001").write_bytes(b"")
    (storage.root / "blocks" / "my notes.txt").write_bytes(b"")
    assert storage.list("blocks") == ["blocks/a"]


def test_deleting_twice_is_fine_and_reading_a_missing_file_is_not(storage: PosixStorage) -> None:
    storage.put_if_absent("a", b"")
    storage.delete("a")
    storage.delete("a")
    with pytest.raises(FileNotFoundError):
        storage.read("a")


def test_a_file_that_could_not_be_written_completely_is_removed(
    storage: PosixStorage, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    path = storage.local_path("blocks/a")
    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space left"):
        write_synced(path, b"data")
    with pytest.raises(OSError, match="No space left"):
        storage.put_if_absent("m", b"data")
    assert storage.list("") == []


def test_a_file_system_without_links_is_named_as_the_problem(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise OSError(errno.EPERM, "Operation not permitted")

    monkeypatch.setattr(os, "link", refuse)
    with pytest.raises(StateError, match="hard links"):
        link_if_absent(tmp_path / "a", tmp_path / "b")


def test_a_big_file_is_written_in_place(storage: PosixStorage) -> None:
    storage.local_path("staged/deep/r.parquet").write_bytes(b"rows")
    assert storage.read("staged/deep/r.parquet") == b"rows"


def test_a_storage_travels_to_workers(storage: PosixStorage) -> None:
    assert pickle.loads(pickle.dumps(storage)) == storage


def _record(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Note the calls that decide what survives a power failure."""
    calls: list[str] = []
    sync, link = os.fsync, os.link

    def note_sync(handle: int) -> None:
        calls.append("sync folder" if stat.S_ISDIR(os.fstat(handle).st_mode) else "sync file")
        sync(handle)

    def note_link(source: Path, target: Path) -> None:
        calls.append("link")
        link(source, target)

    monkeypatch.setattr(os, "fsync", note_sync)
    monkeypatch.setattr(os, "link", note_link)
    return calls


def test_content_is_durable_before_the_name_is_visible_and_the_name_before_we_return(
    storage: PosixStorage, monkeypatch: pytest.MonkeyPatch
) -> None:
    storage.put_if_absent("m/first", b"")  # makes the folders
    calls = _record(monkeypatch)
    storage.put_if_absent("m/second", b"data")
    assert calls == ["sync file", "link", "sync folder"]
    calls.clear()
    storage.put_if_absent("m/second", b"data")
    assert calls == ["sync folder"]


def test_a_block_and_its_name_are_durable_before_it_is_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = _record(monkeypatch)
    sample_block(tmp_path)
    assert calls == ["sync file", "sync folder"]


def test_a_new_folder_is_durable_before_anything_is_put_into_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = _record(monkeypatch)
    sample_block(tmp_path / "blocks")
    assert calls == ["sync folder", "sync file", "sync folder"]
