"""One writer: a lock or a lease against a second live session, an epoch against one that came back.

The storage keeps honest sessions apart: by a lock of the operating system in a directory, which holds on one
machine, by a lease in an object store. Against all others, a session that slept through its own funeral among
them, every session claims the next epoch; who sees a higher one than his own must stop.
"""

from __future__ import annotations

from types import TracebackType

from anabranch.errors import StateError
from anabranch.state.errors import FencedError
from anabranch.state.paths import EPOCHS
from anabranch.state.storage import Hold, Storage


class Fence:
    """The right to write to a checkpoint; see `acquire`."""

    def __init__(self, storage: Storage, *, epoch: int, hold: Hold) -> None:
        self.epoch = epoch
        self._storage = storage
        self._hold: Hold | None = hold

    def check(self) -> None:
        """Raise `FencedError` unless this is still the writer; call before every commit."""
        if self._hold is None:
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
        if self._hold is not None:
            hold, self._hold = self._hold, None
            hold.release()

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
        Another live session holds it; the message names the process.
    StateError
        The directory cannot be written to.
    """
    try:
        hold = storage.hold()
        try:
            epoch = _claim_epoch(storage)
            hold.sign(epoch)
        except BaseException:
            hold.release()
            raise
    except OSError as error:
        raise _unusable(error) from error
    return Fence(storage, epoch=epoch, hold=hold)


def highest_epoch(storage: Storage) -> int:
    """Return the latest claimed epoch, 0 if there is none."""
    claims = (name.removeprefix(f"{EPOCHS}/") for name in storage.list(EPOCHS))
    return max((int(claim) for claim in claims if claim.isdecimal()), default=0)


def _unusable(error: OSError) -> StateError:
    return StateError(
        f"cannot write to the checkpoint: {error}. "
        "Choose a directory that this user can write to, with space left"
    )


def _claim_epoch(storage: Storage) -> int:
    epoch = highest_epoch(storage) + 1
    while not storage.put_if_absent(f"{EPOCHS}/{epoch:08d}", b""):
        epoch += 1  # a session on another machine was faster
    return epoch
