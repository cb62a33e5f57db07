from __future__ import annotations

import errno
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from anabranch.errors import StateError
from anabranch.state.errors import CheckpointInUseError, FencedError
from anabranch.state.fence import acquire, highest_epoch
from anabranch.state.storage import PosixStorage, Storage

_HOLD = """
import sys
from pathlib import Path
from anabranch.state.fence import acquire
from anabranch.state.storage import PosixStorage
fence = acquire(PosixStorage(Path(sys.argv[1])))
print(fence.epoch, flush=True)
sys.stdin.read()
"""


@contextmanager
def _other_session(root: Path) -> Iterator[subprocess.Popen[str]]:
    """Another process that holds the checkpoint until its input ends."""
    arguments = [sys.executable, "-c", _HOLD, str(root)]
    with subprocess.Popen(arguments, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            assert int(process.stdout.readline()) >= 1
            yield process
        finally:
            process.kill()


def test_a_second_session_is_refused_and_told_who_holds_the_checkpoint(tmp_path: Path) -> None:
    with _other_session(tmp_path) as other:
        with pytest.raises(CheckpointInUseError) as caught:
            acquire(PosixStorage(tmp_path))
        assert f"process {other.pid} on {socket.gethostname()} (writer epoch 1)" in str(caught.value)
        assert highest_epoch(PosixStorage(tmp_path)) == 1


def test_a_killed_session_frees_the_checkpoint_at_once(tmp_path: Path) -> None:
    with _other_session(tmp_path) as other:
        os.kill(other.pid, signal.SIGKILL)
        other.wait()
        with acquire(PosixStorage(tmp_path)) as fence:
            assert fence.epoch == 2
            fence.check()


def test_a_second_session_in_the_same_process_is_refused_until_the_first_lets_go(storage: Storage) -> None:
    first = acquire(storage)
    with pytest.raises(CheckpointInUseError, match=rf"process {os.getpid()} on .* \(writer epoch 1\)"):
        acquire(storage)
    first.release()
    first.release()
    with acquire(storage) as second:
        assert second.epoch == first.epoch + 1


def test_a_zombie_is_fenced_by_a_session_it_cannot_see(storage: Storage) -> None:
    with acquire(storage) as zombie:
        zombie.check()
        storage.put_if_absent("epochs/00000002", b"")  # a machine that does not share our lock
        with pytest.raises(FencedError, match=r"writer epoch 1, but epoch 2"):
            zombie.check()


def test_a_released_fence_no_longer_passes(storage: Storage) -> None:
    fence = acquire(storage)
    fence.release()
    with pytest.raises(FencedError, match="released"):
        fence.check()


def test_a_holder_that_has_not_signed_yet_is_still_refused_politely(tmp_path: Path) -> None:
    storage = PosixStorage(tmp_path)
    with acquire(storage):
        (tmp_path / "lock").write_bytes(b"")
        with pytest.raises(CheckpointInUseError, match="just starting"):
            acquire(storage)


def test_an_epoch_claimed_by_another_is_skipped(storage: Storage, monkeypatch: pytest.MonkeyPatch) -> None:
    storage.put_if_absent("epochs/00000001", b"")
    monkeypatch.setattr("anabranch.state.fence.highest_epoch", lambda _: 0)
    with acquire(storage) as fence:
        assert fence.epoch == 2


def test_a_session_that_cannot_claim_an_epoch_lets_go_of_the_checkpoint(
    storage: Storage, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(_: Storage) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr("anabranch.state.fence.highest_epoch", full)
        with pytest.raises(StateError, match="No space left"):
            acquire(storage)
    acquire(storage).release()
