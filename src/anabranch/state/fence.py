"""One writer: a lock against a second live session, an epoch against one that came back.

The lock is the operating system's and goes with the process, even after `kill -9`. It holds
on one machine only. Across machines, and for a session that slept through its own funeral,
every session claims the next epoch; who sees a higher one than his own must stop.
"""

from __future__ import annotations

import fcntl
import json
import os
import socket
from types import TracebackType

from anabranch.errors import StateError
from anabranch.state.errors import CheckpointInUseError, FencedError
from anabranch.state.layout import EPOCHS, LOCK
from anabranch.state.storage import Storage


class Fence:
    """The right to write to a checkpoint; see `acquire`."""

    def __init__(self, storage: Storage, *, epoch: int, handle: int) -> None:
        self.epoch = epoch
        self._storage = storage
        self._handle: int | None = handle

    def check(self) -> None:
        """Raise `FencedError` unless this is still the writer; call before every commit."""
        if self._handle is None:
            raise FencedError(f"writer epoch {self.epoch} has released the checkpoint")
        highest = highest_epoch(self._storage)
        if highest != self.epoch:
            raise FencedError(
                f"this session is writer epoch {self.epoch}, but epoch {highest} is the latest one in "
                "the checkpoint: another session has taken over, or the checkpoint was removed. "
                "This session must stop"
            )

    def release(self) -> None:
        """Let another session have the checkpoint; idempotent."""
        if self._handle is not None:
            os.close(self._handle)
            self._handle = None

    def __enter__(self) -> Fence:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.release()


def acquire(storage: Storage) -> Fence:
    """Become the one writer of a checkpoint.

    Raises
    ------
    CheckpointInUseError
        Another live session on this machine holds it; the message names the process.
    StateError
        The directory cannot be written to.
    """
    try:
        path = storage.local_path(LOCK)
        # Never deleted, only locked: two sessions could otherwise lock two files of the same name.
        handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
    except OSError as error:
        raise _unusable(error) from error
    try:
        _lock(handle, str(path))
        epoch = _claim_epoch(storage)
        _sign(handle, epoch)
    except BaseException as error:
        os.close(handle)
        if isinstance(error, OSError):
            raise _unusable(error) from error
        raise
    return Fence(storage, epoch=epoch, handle=handle)


def highest_epoch(storage: Storage) -> int:
    """Return the latest claimed epoch, 0 if there is none."""
    claims = (name.removeprefix(f"{EPOCHS}/") for name in storage.list(EPOCHS))
    return max((int(claim) for claim in claims if claim.isdecimal()), default=0)


def _unusable(error: OSError) -> StateError:
    return StateError(
        f"cannot write to the checkpoint: {error}. "
        "Choose a directory that this user can write to, with space left"
    )


def _lock(handle: int, path: str) -> None:
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        raise CheckpointInUseError(
            f"{path} is held by {_holder(handle)}: stop that session first, "
            "or give this one a checkpoint of its own"
        ) from error


def _holder(handle: int) -> str:
    try:
        signature = json.loads(os.pread(handle, 4096, 0))
        return f"process {signature['pid']} on {signature['host']} (writer epoch {signature['epoch']})"
    except (ValueError, KeyError, TypeError):
        return "another process, which is just starting"


def _sign(handle: int, epoch: int) -> None:
    signature = {"pid": os.getpid(), "host": socket.gethostname(), "epoch": epoch}
    os.ftruncate(handle, 0)
    os.pwrite(handle, json.dumps(signature).encode() + b"\n", 0)


def _claim_epoch(storage: Storage) -> int:
    epoch = highest_epoch(storage) + 1
    while not storage.put_if_absent(f"{EPOCHS}/{epoch:08d}", b""):
        epoch += 1  # a session on another machine was faster
    return epoch
