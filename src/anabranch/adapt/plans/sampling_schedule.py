"""When the optimizer samples how streams meet: rarely while nothing changes, at once when something does.

Samples and evaluations of plans are paid for in every batch in which they happen. Rates of references and
pairs found come for free with every batch, so they are what tells that it is time to look again.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any, NamedTuple

SOONEST = 2
RAREST = 48
"""Batches from one look to the next."""
QUIET_LOOKS = 3
"""Looks in a row without a finding after which they become rarer."""
SHIFT = 1.5
"""Factor by which a rate must change for the next sample to come at once."""
ENOUGH = 200
"""Rates counted from fewer change by chance."""


class Rate(NamedTuple):
    """How many per second of event time, and from how many that was counted."""

    per_s: float
    counted: int


@dataclass(frozen=True, slots=True)
class SamplingSchedule:
    """When to look, and what there was at the last look.

    Examples
    --------
    >>> sampling, looks = SamplingSchedule(), []
    >>> for batch in range(40):
    ...     if sampling.is_due(batch):
    ...         looks.append(batch)
    ...     rows = 1000 if batch < 30 else 3000
    ...     sampling = sampling.after(batch, {"rows of a": Rate(rows / 10, rows)}, busy=False)
    >>> looks
    [0, 2, 4, 8, 16, 31, 33, 35, 39]
    """

    next_look: int = 0
    every: int = SOONEST
    quiet: int = 0
    taken: int = 0
    """Looks so far: samples are taken from either side in turn."""
    seen: Mapping[str, Rate] = field(default_factory=dict)

    def is_due(self, batch: int) -> bool:
        return batch >= self.next_look

    def after(self, batch: int, rates: Mapping[str, Rate], *, busy: bool) -> SamplingSchedule:
        """Take note of a batch.

        Parameters
        ----------
        rates
            What comes with every batch, by name.
        busy
            Whether the policy is in the middle of something: a plan that looks better, a change on trial.
        """
        if self.is_due(batch):
            quiet = 0 if busy else self.quiet + 1
            every = SOONEST if quiet < QUIET_LOOKS else min(2 * self.every, RAREST)
            return SamplingSchedule(batch + every, every, quiet, self.taken + 1, dict(rates))
        if any(_has_shifted(rates.get(name, _NONE), was) for name, was in self.seen.items()):
            return replace(self, next_look=batch + 1, every=SOONEST, quiet=0, seen=dict(rates))
        return self

    def to_json(self) -> dict[str, Any]:
        return {**asdict(self), "seen": {name: list(rate) for name, rate in self.seen.items()}}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> SamplingSchedule:
        seen = {name: Rate(*rate) for name, rate in data.get("seen", {}).items()}
        return cls(**{**data, "seen": seen})


_NONE = Rate(0.0, 0)


def _has_shifted(now: Rate, before: Rate) -> bool:
    low, high = sorted((now.per_s, before.per_s))
    return max(now.counted, before.counted) >= ENOUGH and high > SHIFT * low
