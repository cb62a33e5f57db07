"""What a directory must do so that its files survive a power failure."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path

import pytest

from anabranch.errors import StateError
from anabranch.state.storage import PosixStorage
from anabranch.state.storage.local_files import link_if_absent, write_synced
from tests.state.samples import sample_block


@pytest.fixture
def storage(tmp_path: Path) -> PosixStorage:
    return PosixStorage(tmp_path / "ck")


def test_a_stored_file_leaves_nothing_temporary(storage: PosixStorage) -> None:
    assert storage.put_if_absent("manifests/a.json", b"one")
    assert storage.list("") == ["manifests/a.json"]


def test_files_of_others_are_not_listed(storage: PosixStorage) -> None:
    storage.put_if_absent("blocks/a", b"")
    (storage.root / "blocks" / ".nfs0001").write_bytes(b"")
    (storage.root / "blocks" / "my notes.txt").write_bytes(b"")
    assert storage.list("blocks") == ["blocks/a"]


def test_a_log_is_one_file_that_others_can_follow(storage: PosixStorage) -> None:
    for line in (b"one\n", b"two\n", b"three\n"):
        storage.append("events.jsonl", line, most_bytes=6)
    assert (storage.root / "events.jsonl").read_bytes() == b"three\n"
    assert (storage.root / "events.older.jsonl").read_bytes() == b"one\ntwo\n"


def test_exporting_to_the_same_file_system_copies_nothing(storage: PosixStorage, tmp_path: Path) -> None:
    storage.put_new("staged/r", b"rows")
    storage.export("staged/r", tmp_path / "r")
    assert (tmp_path / "r").samefile(storage.root / "staged/r")


def test_a_file_that_could_not_be_written_completely_is_removed(
    storage: PosixStorage, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    (storage.root / "blocks").mkdir(parents=True)
    path = storage.root / "blocks" / "a"
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
    storage.put_if_absent("m/first", b"data")  # makes the folders
    calls = _record(monkeypatch)
    storage.put_if_absent("m/second", b"data")
    assert calls == ["sync file", "link", "sync folder"]
    calls.clear()
    storage.put_if_absent("m/second", b"data")
    assert calls == ["sync folder"]
    calls.clear()
    storage.put_if_absent("m/empty", b"")
    assert calls == ["sync folder"]
    calls.clear()
    storage.put_if_absent("m/note", b"", durable=False)
    assert calls == []


def test_a_block_and_its_name_are_durable_before_it_is_reported(
    storage: PosixStorage, monkeypatch: pytest.MonkeyPatch
) -> None:
    sample_block(storage)  # makes the folders
    calls = _record(monkeypatch)
    sample_block(storage)
    assert calls == ["sync file", "sync folder"]


def test_an_upload_and_its_name_are_durable_when_it_is_sealed(
    storage: PosixStorage, monkeypatch: pytest.MonkeyPatch
) -> None:
    upload = storage.upload("staged/r")
    calls = _record(monkeypatch)
    upload.write(b"rows")
    upload.seal()
    assert calls == ["sync file", "sync folder"]


def test_a_new_folder_is_durable_before_anything_is_put_into_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = _record(monkeypatch)
    sample_block(PosixStorage(tmp_path))
    assert calls == ["sync folder", "sync file", "sync folder"]
