"""Counts of a sample: how rows of two references meet."""

from __future__ import annotations

from typing import NamedTuple


class EdgeCount(NamedTuple):
    """Pairs of rows of two references, in a sample.

    Attributes
    ----------
    examined
        Pairs that could have met.
    met
        Those that share keys and windows.
    passed
        Of these, those for which the predicates over just the two references are true.
    """

    examined: int = 0
    met: int = 0
    passed: int = 0

    def and_also(self, other: EdgeCount) -> EdgeCount:
        """Both samples as one.

        >>> EdgeCount(100, 5, 1).and_also(EdgeCount(10, 2, 2))
        EdgeCount(examined=110, met=7, passed=3)
        """
        return EdgeCount(*(a + b for a, b in zip(self, other, strict=True)))
