"""The first batches say nothing: workers start, kernels compile, files are read for the first time."""

from __future__ import annotations

from dataclasses import dataclass

from anabranch.adapt.measures.statistics import Statistics

AT_LEAST = 2
"""Batches with rows that are cold in any case."""
AT_MOST = 6
"""By then it is the load that gets cheaper, and not the machine that gets warm."""
STILL_WARMING = 0.7
"""A batch whose rows cost less than this share of what they cost before: the next may be cheaper still."""


@dataclass(frozen=True, slots=True)
class WarmUp:
    """What the batches since the start of the process have shown.

    Workers are cold again after a restart, so that none of this is remembered.

    Examples
    --------
    >>> warm_up, cold = WarmUp(), []
    >>> for busy_s in (3.0, 0.9, 0.3, 0.28, 0.1):
    ...     warm_up = warm_up.after(Statistics.of_batch([busy_s], rows=[100]))
    ...     cold.append(warm_up.is_cold)
    >>> cold
    [True, True, True, False, False]
    """

    batches: int = 0
    row_s: float = 0.0
    """What a row or pair took in the last batch."""
    is_cold: bool = True
    """Whether the last batch was."""

    def after(self, batch: Statistics) -> WarmUp:
        """One batch later; one without rows shows nothing, and once warm is warm."""
        counted = int(batch.rows.sum() + batch.matches.sum())
        if not counted or (self.batches and not self.is_cold):
            return self
        row_s, number = float(batch.busy_s.sum()) / counted, self.batches + 1
        still = number <= AT_MOST and row_s < STILL_WARMING * self.row_s
        return WarmUp(number, row_s, number <= AT_LEAST or still)
