"""The search for the length of segments (Gu, Yu, Wang, section 3): longer, shorter, whichever does better.

Long segments copy little, short ones spread the work of a batch over more sites. What is measured is rows per
second of the busiest site. A trial lasts some batches; a length is kept only where it is better by more than
what noise makes. When neither direction is better the search rests, twice as long each time.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

TRIAL = 4
"""Batches that are measured with a length; the first one after a change is not."""
BETTER = 1.1
"""A length must do so many times better to be kept."""
REST = 16
"""Batches without a trial after a search that found nothing better."""
LONGEST_REST = 1024


@dataclass(frozen=True, slots=True)
class SegmentSearch:
    """Where the search stands.

    Attributes
    ----------
    length
        The best length so far.
    factor
        What the length is multiplied by in the trial under way; 1: the best itself is measured.
    failed
        Directions that were no better since the length changed last.
    rest
        Batches until the next trial.
    patience
        How long to rest next.
    measured
        What the best length reached.
    samples
        Measures of the trial under way.
    """

    length: int
    factor: float = 1.0
    failed: int = 0
    rest: int = 0
    patience: int = REST
    measured: float = 0.0
    samples: tuple[float, ...] = ()

    @property
    def wanted(self) -> int:
        """The length of new segments."""
        return max(1, round(self.length * self.factor))

    def observed(self, performance: float) -> SegmentSearch:
        """The search after another batch.

        Parameters
        ----------
        performance
            Rows per second of the busiest site, or another measure of which more is better.
        """
        if self.rest:
            return replace(self, rest=self.rest - 1)
        samples = (*self.samples, performance)
        if len(samples) <= TRIAL:
            return replace(self, samples=samples)
        reached = sorted(samples[1:])[TRIAL // 2]
        if self.factor == 1.0:
            return replace(self, factor=0.5, measured=reached, samples=(), failed=0)
        if reached > BETTER * self.measured:
            better = replace(self, length=self.wanted, measured=reached, samples=())
            return replace(better, failed=0, patience=REST)
        if self.failed:
            rested = min(2 * self.patience, LONGEST_REST)
            return SegmentSearch(self.length, rest=self.patience, patience=rested)
        return replace(self, factor=2.0 if self.factor < 1 else 0.5, failed=1, samples=())

    def to_json(self) -> list[Any]:
        return [
            self.length,
            self.factor,
            self.failed,
            self.rest,
            self.patience,
            self.measured,
            list(self.samples),
        ]

    @classmethod
    def from_json(cls, data: list[Any]) -> SegmentSearch:
        length, factor, failed, rest, patience, measured, samples = data
        return cls(length, factor, failed, rest, patience, measured, tuple(samples))
