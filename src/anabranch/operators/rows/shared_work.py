"""Work on rows that several sites share: whoever comes first does it, and all of them should pay."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


class SharedWork:
    """Counts the CPU time of what is made of shared rows once, for all who use it.

    Attributes
    ----------
    seconds
        Since the process began.
    """

    def __init__(self) -> None:
        self.seconds = 0.0
        self._is_counting = False

    def done(self, make: Callable[[], T]) -> T:
        """Make something; what it makes on its way counts once."""
        if self._is_counting:
            return make()
        self._is_counting = True
        began_s = time.thread_time()
        try:
            return make()
        finally:
            self.seconds += time.thread_time() - began_s
            self._is_counting = False


SHARED_WORK = SharedWork()
"""That of this process, which works for one slot at a time."""
