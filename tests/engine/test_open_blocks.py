from __future__ import annotations

import shutil
import time
from pathlib import Path

import numpy as np
import pytest

from anabranch.engine.task.blocks.open_blocks import UNUSED_S, close_blocks, open_blocks, opened
from anabranch.exchange.address import PARTITIONS
from anabranch.state.block import BlockMeta
from anabranch.state.errors import CorruptionError
from anabranch.state.storage import PosixStorage, Storage
from tests.state.samples import sample_block

ALL = np.ones(PARTITIONS, dtype=np.bool_)


def block(storage: Storage, seed: int = 0) -> BlockMeta:
    return sample_block(storage, seed=seed, partitions=[(0, 50)])


def mapped(directory: Path) -> set[str]:
    """Names of the files that this process has mapped, those that were deleted among them."""
    lines = Path("/proc/self/maps").read_text().splitlines()
    paths = [line.split(maxsplit=5)[5].removesuffix(" (deleted)") for line in lines if str(directory) in line]
    return {Path(path).name for path in paths}


def test_a_block_stays_open_until_the_manifest_has_it_no_more(tmp_path: Path) -> None:
    storage = PosixStorage(tmp_path)
    old, new = block(storage, 1), block(storage, 2)
    rows = open_blocks(storage, [old, new], ALL)["orders"][1].rows
    assert mapped(tmp_path) == {old.name, new.name}
    storage.delete(f"blocks/{old.name}")
    assert open_blocks(storage, [new], ALL)["orders"][0].rows is rows
    assert mapped(tmp_path) == {new.name}


def test_sessions_that_share_a_worker_keep_what_they_have_open(tmp_path: Path) -> None:
    mine, others = PosixStorage(tmp_path / "mine"), PosixStorage(tmp_path / "others")
    my_block, their_block = block(mine), block(others)
    rows = open_blocks(mine, [my_block], ALL)["orders"][0].rows
    open_blocks(others, [their_block], ALL)
    assert open_blocks(mine, [my_block], ALL)["orders"][0].rows is rows


def test_the_files_of_a_checkpoint_that_is_gone_are_let_go_when_another_begins(tmp_path: Path) -> None:
    ended, next_one = PosixStorage(tmp_path / "ended"), PosixStorage(tmp_path / "next")
    open_blocks(ended, [block(ended)], ALL)
    shutil.rmtree(ended.root)
    assert mapped(ended.root)
    open_blocks(next_one, [block(next_one)], ALL)
    assert not mapped(ended.root)


def test_the_files_of_a_session_that_has_ended_are_let_go_when_another_begins(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ended, lively, next_one = (PosixStorage(tmp_path / name) for name in ("ended", "lively", "next"))
    for storage in (ended, lively):
        open_blocks(storage, [block(storage)], ALL)
    now_s = time.monotonic() + 0.9 * UNUSED_S
    monkeypatch.setattr(time, "monotonic", lambda: now_s)
    opened(lively)
    now_s += 0.9 * UNUSED_S
    assert mapped(ended.root)
    open_blocks(next_one, [block(next_one)], ALL)
    assert not mapped(ended.root)
    assert mapped(lively.root)


def test_a_block_that_was_verified_is_mapped_again_without_reading_it(tmp_path: Path) -> None:
    storage = PosixStorage(tmp_path)
    meta = block(storage)
    path = tmp_path / "blocks" / meta.name
    open_blocks(storage, [meta], ALL)
    close_blocks(storage)
    assert not opened(storage)
    assert not mapped(tmp_path)
    damaged = bytearray(path.read_bytes())
    damaged[len(damaged) // 2] ^= 1
    path.chmod(0o644)
    path.write_bytes(damaged)
    assert open_blocks(storage, [meta], ALL)
    open_blocks(storage, [], ALL)  # forgotten, with what was known of it
    with pytest.raises(CorruptionError, match="checksum"):
        open_blocks(storage, [meta], ALL)
