"""How slow each site is, as far as the measurements can tell.

Busy seconds are noisy: a neighbour on the core, a cold cache. A site is called slow or fast only as far as it
stands out of that noise, else work would be moved around between equal sites for nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from anabranch.adapt.measures.statistics import Flags, Floats

PRIOR_SPREAD = 0.15
"""Relative noise of a site's busy time that is assumed before there is any evidence."""
WARY_SPREAD = 0.3
"""The same before moves are made, worth one observation: what they promise at first must be plain."""
PRIOR_WEIGHT = 4.0
"""Observations that the assumption is worth."""
DOUBT = 2.0
"""Standard errors that a site must stand out by."""
TWICE = 1.5
"""Observations, older ones fading, without which a site counts as usual: once is chance."""
CHANGED = 3.0
"""Standard deviations that put a round out of line with those before."""


class Slowness:
    """Fading mean of each site's busy seconds per second of work, in logarithms, with its error.

    Parameters
    ----------
    decay
        Weight that past rounds keep at each new one.
    hiccup_s
        Seconds that a round may take longer for no reason: a site is called slow only beyond them.

    Examples
    --------
    >>> slowness = Slowness(decay=0.8)
    >>> for _ in range(8):
    ...     slowness.add(np.array([0.105, 0.1, 0.095, 0.3]), np.array([0.1, 0.1, 0.1, 0.1]))
    >>> slowness.estimate().round(1).tolist()
    [1.0, 1.0, 1.0, 2.8]
    """

    def __init__(self, *, decay: float, hiccup_s: float = 0.0) -> None:
        self._decay = decay
        self._hiccup_s = hiccup_s
        self._count: Floats = np.zeros(0)
        self._sum: Floats = np.zeros(0)
        self._squares: Floats = np.zeros(0)
        self._surprise: Floats = np.zeros(0)
        """Direction, per site, in which the last round was out of line."""

    def add(self, busy_s: Floats, nominal_s: Floats) -> None:
        """Learn from a round; a site that did nothing teaches nothing."""
        if len(self._count) != len(busy_s):
            self._count, self._sum, self._squares, self._surprise = (np.zeros(len(busy_s)) for _ in range(4))
        worked = (busy_s > 0) & (nominal_s > 0)
        ratio = np.zeros(len(busy_s))
        ratio[worked] = np.log((busy_s[worked] + self._hiccup_s) / (nominal_s[worked] + self._hiccup_s))
        self._forget_the_changed(ratio, worked)
        self._count = self._decay * self._count + worked
        self._sum = self._decay * self._sum + ratio
        self._squares = self._decay * self._squares + ratio**2

    def _forget_the_changed(self, ratio: Floats, worked: Flags) -> None:
        """A site that is out of line twice running, the same way, has changed: its past says nothing."""
        known = worked & (self._count > 0)
        if not known.any():
            return
        mean = np.divide(self._sum, self._count, out=np.zeros(len(ratio)), where=known)
        apart = np.where(known, ratio - mean, 0.0)
        out_of_line = np.where(np.abs(apart) > CHANGED * self._spread(known), np.sign(apart), 0.0)
        changed = (out_of_line != 0) & (out_of_line == self._surprise)
        for sums in (self._count, self._sum, self._squares):
            sums[changed] = 0.0
        self._surprise = np.where(changed, 0.0, out_of_line)

    def estimate(self) -> Floats:
        """Seconds each site needs for a second of work."""
        seen = self._count > 0
        if not seen.any():
            return np.ones(len(self._count))
        mean = np.divide(self._sum, self._count, out=np.zeros(len(self._sum)), where=seen)
        usual = float(np.median(mean[seen]))
        apart = np.where(self._count >= TWICE, mean - usual, 0.0)
        error = DOUBT * self._spread(seen) / np.sqrt(np.maximum(self._count, 1e-9))
        sure = np.sign(apart) * np.maximum(np.abs(apart) - error, 0.0)
        return np.asarray(np.exp(usual + sure), dtype=np.float64)

    def noise(self, *, wary: bool = False) -> float:
        """Relative noise of the busy time of a site in one round; `wary` before it is known to be small."""
        seen = self._count > 0
        if not seen.any():
            return WARY_SPREAD if wary else PRIOR_SPREAD
        return self._spread(seen, prior=WARY_SPREAD, weight=1.0) if wary else self._spread(seen)

    def _spread(self, seen: Flags, *, prior: float = PRIOR_SPREAD, weight: float = PRIOR_WEIGHT) -> float:
        """Noise of one observation, pooled over the sites: how much each varies around its own mean."""
        count = np.maximum(self._count[seen], 1e-9)
        around = np.maximum(self._squares[seen] - self._sum[seen] ** 2 / count, 0.0)
        freedom = np.maximum(count - 1, 0.0)
        squares = float(around.sum()) + weight * prior**2
        return float(np.sqrt(squares / (float(freedom.sum()) + weight)))

    def to_json(self) -> dict[str, Any]:
        return {
            "count": self._count.tolist(),
            "sum": self._sum.tolist(),
            "squares": self._squares.tolist(),
            "surprise": self._surprise.tolist(),
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any], *, decay: float, hiccup_s: float = 0.0) -> Slowness:
        slowness = cls(decay=decay, hiccup_s=hiccup_s)
        slowness._count = np.array(data["count"], dtype=np.float64)
        slowness._sum = np.array(data["sum"], dtype=np.float64)
        slowness._squares = np.array(data["squares"], dtype=np.float64)
        slowness._surprise = np.array(data["surprise"], dtype=np.float64)
        return slowness
