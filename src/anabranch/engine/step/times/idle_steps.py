"""Steps between micro-batches: rows that wait enter although no new ones come.

Spark calls `foreachBatch` only when there is new data. Without these steps a row put off by the skew
buffer, or pending for a spilled partition, would wait until somebody sends another.
"""

from __future__ import annotations

import threading
from collections.abc import Callable

PAUSE_S = 1.0
"""How long nothing must have happened."""


class IdleSteps:
    """Takes a step whenever rows wait and no batch has ended for a while.

    Parameters
    ----------
    waits
        Whether rows wait.
    step
        Takes the step; called with `turn` held, in a thread of its own.
    alive
        Whether there will be batches still; looked at whenever the pause is over.
    failed
        Told why a step failed, without `turn`; none follow.
    turn
        Held by whoever works on the batch loop.
    """

    def __init__(
        self,
        waits: Callable[[], bool],
        step: Callable[[], None],
        *,
        alive: Callable[[], bool],
        failed: Callable[[BaseException], None],
        turn: threading.Lock,
        pause_s: float = PAUSE_S,
    ) -> None:
        self._waits = waits
        self._step = step
        self._alive = alive
        self._failed = failed
        self._turn = turn
        self._pause_s = pause_s
        self._woken = threading.Event()
        self._over = False
        self._thread = threading.Thread(target=self._watch, name="anabranch-idle", daemon=True)
        self._thread.start()

    def wake(self) -> None:
        """A batch has ended: the pause begins anew."""
        self._woken.set()

    def stop(self) -> None:
        """Take no more steps; one under way is waited for."""
        self._over = True
        self._woken.set()
        if self._thread is not threading.current_thread():
            self._thread.join()

    def _watch(self) -> None:
        while not self._over:
            if self._woken.wait(self._pause_s):
                self._woken.clear()
            elif not self._alive():
                self._over = True
            elif self._waits() and self._turn.acquire(blocking=False):
                try:
                    self._take_turn()
                except BaseException as error:
                    self._over = True
                    self._turn.release()
                    self._failed(error)
                else:
                    self._turn.release()

    def _take_turn(self) -> None:
        if self._waits() and not self._over and self._alive():
            self._step()
