"""How often keys of two columns are equal, told from a kilobyte of each.

Every key adds 1 or -1 to one of some counters, both by its hash. Keys that are not equal cancel out in the
products of two columns' counters; what is left is the number of equal pairs, give or take √(F₂F₂′/width)
(Cormode and Garofalakis, *Sketching Streams Through the Net*, VLDB 2005: fast AGMS). Sketches add up.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from anabranch.adapt.measures.statistics import Floats

WIDTH = 1024
_SIGN = 10
"""The bit of a hash, above those that choose the counter, that is the sign."""


@dataclass(frozen=True, slots=True, eq=False)
class KeySketch:
    """Keys of some rows, `rows` in all.

    Examples
    --------
    >>> keys = np.random.default_rng(1).integers(-(2**62), 2**62, 500)
    >>> one, other = KeySketch.of(np.repeat(keys, 4)), KeySketch.of(keys[:100])
    >>> round(one.share(other) * 500)  # one of 500 keys
    1
    """

    rows: float
    sums: Floats

    @classmethod
    def of(cls, hashes: npt.NDArray[np.int64]) -> KeySketch:
        counter = hashes & (WIDTH - 1) | (hashes >> _SIGN & 1) * WIDTH
        counts = np.bincount(counter, minlength=2 * WIDTH)
        return cls(float(len(hashes)), (counts[:WIDTH] - counts[WIDTH:]).astype(np.float64))

    def faded(self, weight: float) -> KeySketch:
        """What is left of it."""
        return KeySketch(weight * self.rows, weight * self.sums)

    def and_also(self, other: KeySketch) -> KeySketch:
        """The keys of both."""
        return KeySketch(self.rows + other.rows, self.sums + other.sums)

    def share(self, other: KeySketch) -> float:
        """Of all pairs of a row of each, the share with equal keys: at least that of half a pair."""
        pairs = max(0.5, float(self.sums @ other.sums))
        return min(1.0, pairs / max(1.0, self.rows * other.rows))
