from __future__ import annotations

import os
from pathlib import Path

import pytest
import xxhash

from anabranch.state.storage.block_cache import BlockCache

FILES = {f"blocks/{letter}": letter.encode() * 100 for letter in "abcdefgh"}


class Source:
    """Files of which it is noted how often they are read."""

    def __init__(self) -> None:
        self.reads: list[str] = []

    def read(self, name: str) -> bytes:
        self.reads.append(name)
        return FILES[name]


@pytest.fixture
def source() -> Source:
    return Source()


def fetch(cache: BlockCache, source: Source, name: str) -> Path:
    data = FILES[name]
    checksum = xxhash.xxh3_64_hexdigest(data)
    path = cache.fetch(name, size=len(data), checksum=checksum, read=source.read)
    assert path.read_bytes() == data
    _age(path.parent)
    return path


def _age(folder: Path) -> None:
    """Let all copies be older than the next one, however coarse the clock is."""
    for path in folder.iterdir():
        status = path.stat()
        os.utime(path, ns=(status.st_atime_ns - 10**9, status.st_mtime_ns - 10**9))


def copies(root: Path) -> set[str]:
    return {path.name for path in root.rglob("*") if path.is_file()}


def test_a_file_is_fetched_once_however_often_it_is_opened(tmp_path: Path, source: Source) -> None:
    cache = BlockCache(tmp_path)
    for _ in range(3):
        fetch(cache, source, "blocks/a")
    fetch(BlockCache(tmp_path), source, "blocks/a")  # another worker of this machine
    assert source.reads == ["blocks/a"]


@pytest.mark.parametrize("damage", [b"", b"a" * 99, b"a" * 99 + b"b", b"a" * 200])
def test_a_copy_that_another_process_left_damaged_is_fetched_again(
    tmp_path: Path, source: Source, damage: bytes
) -> None:
    fetch(BlockCache(tmp_path), source, "blocks/a").write_bytes(damage)
    fetch(BlockCache(tmp_path), source, "blocks/a")
    assert source.reads == ["blocks/a"] * 2


def test_beyond_its_capacity_the_oldest_copies_go_and_those_that_a_step_needs_stay(
    tmp_path: Path, source: Source
) -> None:
    cache = BlockCache(tmp_path, capacity=350)
    cache.need(["blocks/a", "blocks/b"])
    for name in FILES:
        fetch(cache, source, name)
        assert sum(path.stat().st_size for path in tmp_path.rglob("*") if path.is_file()) <= 350
    assert copies(tmp_path) == {"a", "b", "h"}
    fetch(cache, source, "blocks/a")
    assert source.reads.count("blocks/a") == 1


def test_a_step_that_needs_more_than_fits_has_it_and_the_next_one_makes_room(
    tmp_path: Path, source: Source
) -> None:
    cache = BlockCache(tmp_path, capacity=250)
    cache.need(list(FILES))
    for name in FILES:
        fetch(cache, source, name)
    assert len(copies(tmp_path)) == len(FILES)
    cache.need(["blocks/a"])
    assert copies(tmp_path) == {"a", "h"}


def test_a_copy_that_another_worker_evicted_is_fetched_again(tmp_path: Path, source: Source) -> None:
    cache = BlockCache(tmp_path)
    fetch(cache, source, "blocks/a").unlink()
    fetch(cache, source, "blocks/a")
    assert source.reads == ["blocks/a"] * 2


def test_an_evicted_copy_stays_readable_for_whoever_has_it_open(tmp_path: Path, source: Source) -> None:
    cache = BlockCache(tmp_path)
    with fetch(cache, source, "blocks/a").open("rb") as opened:
        cache.forget("blocks/a")
        assert opened.read() == FILES["blocks/a"]
    assert not copies(tmp_path)
