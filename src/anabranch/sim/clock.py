"""Simulated time, counted in whole ticks so that it never drifts."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True)
class Clock:
    """Time that moves only when told.

    >>> clock = Clock(tick_s=0.005)
    >>> clock.advance()
    >>> clock.advance()
    >>> clock.now
    0.01
    """

    tick_s: float
    ticks: int = 0

    @property
    def now(self) -> float:
        return self.ticks * self.tick_s

    def advance(self) -> None:
        self.ticks += 1
