"""What every storage does, in a directory and in an object store."""

from __future__ import annotations

import pickle
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import xxhash

from anabranch.state.errors import InvalidNameError
from anabranch.state.storage import Storage


def test_a_stored_file_reads_back(storage: Storage) -> None:
    assert storage.put_if_absent("manifests/a.json", b"one")
    assert storage.read("manifests/a.json") == b"one"
    assert storage.list("") == ["manifests/a.json"]


def test_a_name_is_never_overwritten(storage: Storage) -> None:
    for content in (b"first", b""):
        name = f"m/{len(content)}"
        assert storage.put_if_absent(name, content)
        assert not storage.put_if_absent(name, b"second")
        assert not storage.put_if_absent(name, b"")
        with pytest.raises(FileExistsError):
            storage.put_new(name, b"third")
        assert storage.read(name) == content


def test_of_many_concurrent_writers_exactly_one_wins(storage: Storage) -> None:
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
    storage: Storage, name: str, tmp_path: Path
) -> None:
    calls = [
        lambda: storage.put_if_absent(name, b""),
        lambda: storage.read(name),
        lambda: storage.delete(name),
        lambda: storage.put_new(name, b""),
        lambda: storage.upload(name),
        lambda: storage.link("a", name),
        lambda: storage.link(name, "a"),
        lambda: storage.append(name, b"line", most_bytes=1),
        lambda: storage.fetch(name, size=0, checksum=""),
        lambda: storage.export(name, tmp_path / "out"),
    ]
    storage.put_if_absent("a", b"")
    for call in calls:
        with pytest.raises(InvalidNameError):
            call()
    if name:
        with pytest.raises(InvalidNameError):
            storage.list(name)


def test_listing_is_recursive_sorted_and_limited_to_the_folder(storage: Storage) -> None:
    for name in ("blocks/b", "blocks/site-1/a", "blocks/a", "blocks2/x", "top"):
        storage.put_if_absent(name, b"123")
    assert storage.list("blocks") == ["blocks/a", "blocks/b", "blocks/site-1/a"]
    assert [info.bytes for info in storage.scan("blocks")] == [3, 3, 3]
    assert storage.list("nothing") == []


def test_deleting_twice_is_fine_and_reading_a_missing_file_is_not(storage: Storage) -> None:
    storage.put_if_absent("a", b"")
    storage.delete("a")
    storage.delete("a")
    for missing in (lambda: storage.read("a"), lambda: storage.link("a", "b")):
        with pytest.raises(FileNotFoundError):
            missing()


def test_a_file_that_is_uploaded_in_pieces_is_there_once_it_is_sealed(storage: Storage) -> None:
    upload = storage.upload("staged/r.parquet")
    upload.write(b"some ")
    upload.write(memoryview(b"rows"))
    upload.seal()
    assert storage.read("staged/r.parquet") == b"some rows"


def test_a_second_name_outlives_the_first(storage: Storage) -> None:
    storage.put_new("staged/d", b"dead")
    assert storage.link("staged/d", "dead_letters/d")
    assert not storage.link("staged/d", "dead_letters/d")
    storage.delete("staged/d")
    assert storage.read("dead_letters/d") == b"dead"


def test_a_log_keeps_its_newest_lines_and_not_many_more(storage: Storage) -> None:
    lines = [f"line {number:04d}\n".encode() for number in range(200)]
    for line in lines:
        storage.append("events.jsonl", line, most_bytes=500)
    kept = storage.read_log("events.jsonl")
    assert b"".join(lines).endswith(kept)
    assert 500 <= len(kept) <= 2 * 510


def test_a_file_can_be_opened_on_this_machine_and_given_away(storage: Storage, tmp_path: Path) -> None:
    data = b"some rows"
    storage.put_new("staged/r", data)
    path = storage.fetch("staged/r", size=len(data), checksum=xxhash.xxh3_64_hexdigest(data))
    assert path.read_bytes() == data
    (tmp_path / "sink").mkdir()
    storage.export("staged/r", tmp_path / "sink" / "r")
    storage.delete("staged/r")
    assert (tmp_path / "sink" / "r").read_bytes() == data
    assert len(list((tmp_path / "sink").iterdir())) == 1


def test_a_handle_travels_to_workers_and_is_small(storage: Storage) -> None:
    handle = pickle.dumps(storage)
    assert pickle.loads(handle) == storage
    assert hash(pickle.loads(handle)) == hash(storage)
    assert len(handle) < 400
