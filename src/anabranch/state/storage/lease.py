"""A lease: the right to write where there are no locks, held until a time unless it is renewed.

Every lease is an object with a number; whoever puts the next number first has it. Clocks of two machines may
differ, and a holder may sleep through its end: a lease only keeps honest sessions apart. What decides is
the epoch that a new writer claims (`fence`).
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable

from anabranch.state.errors import CheckpointInUseError
from anabranch.state.paths import LEASES
from anabranch.state.storage.holder import describe_holder, signature
from anabranch.state.storage.object_store import ObjectStore

LEASE_S = 30.0
"""For so long a lease is valid: as long a session must wait whose predecessor was killed."""
_TRIES = 5

Clock = Callable[[], float]


class Lease:
    """The newest lease of a store, renewed by a thread until it is released.

    Raises
    ------
    CheckpointInUseError
        Somebody else's is still valid.
    """

    def __init__(self, store: ObjectStore, clock: Clock = time.time) -> None:
        self._store = store
        self._clock = clock
        self._epoch: int | None = None
        self._turn = threading.Lock()
        self._ended = threading.Event()
        self._number = self._free_number()
        if not self._put(expires_s=clock() + LEASE_S):
            raise _in_use("another process, which is just starting", LEASE_S)
        threading.Thread(target=self._keep_renewing, name="anabranch-lease", daemon=True).start()

    def sign(self, epoch: int) -> None:
        """Renew the lease with the writer's epoch in it."""
        self._epoch = epoch
        self.renew()

    def renew(self) -> bool:
        """Hold it for another while; False if it has ended or somebody else has it."""
        with self._turn:
            return not self._ended.is_set() and self._follow(self._clock() + LEASE_S)

    def release(self) -> None:
        """Let the next session have it at once."""
        with self._turn:
            if not self._ended.is_set():
                self._ended.set()
                self._follow(0.0)

    def _keep_renewing(self) -> None:
        while not self._ended.wait(max(LEASE_S / 3, 1.0)):
            try:
                if not self.renew():
                    return
            except OSError:
                continue  # a store that cannot be reached now may be later; until then, the epoch protects it

    def _follow(self, expires_s: float) -> bool:
        before = _key(self._number)
        self._number += 1
        if not self._put(expires_s):
            self._ended.set()
            return False
        self._store.delete(before)
        return True

    def _put(self, expires_s: float) -> bool:
        content = signature(self._epoch) | {"expires_s": expires_s}
        return self._store.put_if_absent(_key(self._number), json.dumps(content).encode())

    def _free_number(self) -> int:
        """The number after the newest lease, if that has ended."""
        for _ in range(_TRIES):
            leases = [info.name for info in self._store.list(f"{LEASES}/")]
            if not leases:
                return 0
            try:
                newest = self._store.get(leases[-1])
            except FileNotFoundError:
                continue  # renewed meanwhile
            left_s = json.loads(newest)["expires_s"] - self._clock()
            if left_s > 0:
                raise _in_use(describe_holder(newest), left_s)
            return int(leases[-1].removeprefix(f"{LEASES}/")) + 1
        raise _in_use("a process that renews its lease all the time", LEASE_S)


def _key(number: int) -> str:
    return f"{LEASES}/{number:012d}"


def _in_use(holder: str, left_s: float) -> CheckpointInUseError:
    return CheckpointInUseError(
        f"the checkpoint is held by {holder}: stop that session first, or give this one a checkpoint of its "
        f"own. If that session was killed, its lease ends in {left_s:.0f} seconds"
    )
