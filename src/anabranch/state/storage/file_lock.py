"""A lock of the operating system: it goes with the process, even after `kill -9`; it holds on one machine."""

from __future__ import annotations

import fcntl
import json
import os
from pathlib import Path

from anabranch.state.errors import CheckpointInUseError
from anabranch.state.storage.holder import describe_holder, signature


class FileLock:
    """The lock on a file, held from the beginning.

    Raises
    ------
    CheckpointInUseError
        A live process of this machine holds it.
    """

    def __init__(self, path: Path) -> None:
        # Never deleted, only locked: two sessions could otherwise lock two files of the same name.
        handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            holder = describe_holder(os.pread(handle, 4096, 0))
            os.close(handle)
            raise CheckpointInUseError(
                f"{path} is held by {holder}: stop that session first, "
                "or give this one a checkpoint of its own"
            ) from error
        except BaseException:
            os.close(handle)
            raise
        self._handle: int | None = handle

    def sign(self, epoch: int) -> None:
        """Write into the file who holds it."""
        assert self._handle is not None
        os.ftruncate(self._handle, 0)
        os.pwrite(self._handle, json.dumps(signature(epoch)).encode() + b"\n", 0)

    def release(self) -> None:
        """Let go of the lock."""
        if self._handle is not None:
            os.close(self._handle)
            self._handle = None
