"""One process holds the lock; the others are told who."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from anabranch.state.errors import CheckpointInUseError
from anabranch.state.storage.file_lock import FileLock


def test_a_second_one_is_refused_and_told_who_holds_it(tmp_path: Path) -> None:
    held = FileLock(tmp_path / "lock")
    with pytest.raises(CheckpointInUseError, match="another process, which is just starting"):
        FileLock(tmp_path / "lock")
    held.sign(4)
    with pytest.raises(CheckpointInUseError, match=rf"process {os.getpid()} on .* \(writer epoch 4\)"):
        FileLock(tmp_path / "lock")
    held.release()


def test_it_can_be_had_again_after_it_was_let_go_twice(tmp_path: Path) -> None:
    held = FileLock(tmp_path / "lock")
    held.release()
    held.release()
    again = FileLock(tmp_path / "lock")
    with pytest.raises(CheckpointInUseError):
        FileLock(tmp_path / "lock")
    again.release()


def test_a_shorter_signature_leaves_nothing_of_a_longer_one(tmp_path: Path) -> None:
    held = FileLock(tmp_path / "lock")
    held.sign(10**9)
    held.sign(1)
    with pytest.raises(CheckpointInUseError, match=r"\(writer epoch 1\)"):
        FileLock(tmp_path / "lock")
    held.release()
