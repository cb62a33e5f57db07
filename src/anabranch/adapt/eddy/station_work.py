"""What a join takes at all stations together, where its tree takes 1: learnt from joins that have changed.

Nobody sees both ways at once. But a join that changes has run the same load in the one way just before, and
runs it in the other just after: it changes only when things have been as they are for a while.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

USUAL = 1.5
"""Before any join has changed; 100,000 rows a stream took 1.2 to 1.5 (`anabranch bench stations`)."""
LEAST, MOST = 0.5, 4.0
"""What lies outside was another load."""
SETTLE = 2
"""Steps after a change that do not count: rows are read and states computed once more."""
ENOUGH = 4
"""Steps from which a mean is taken."""
FADE = 0.7
"""What is left of the past with each step."""


class Busy(NamedTuple):
    """CPU seconds of a join in one way: the mean of the last steps."""

    at_stations: bool
    mean_s: float = 0.0
    steps: int = 0

    def after(self, busy_s: float) -> Busy:
        """The mean after a step."""
        counted = self.steps + 1 - SETTLE
        mean_s = busy_s if counted <= 1 else FADE * self.mean_s + (1 - FADE) * busy_s
        return Busy(self.at_stations, mean_s, self.steps + 1)

    @property
    def is_known(self) -> bool:
        return self.steps >= SETTLE + ENOUGH


@dataclass(frozen=True, slots=True)
class StationWork:
    """A value: each step gives another one.

    Attributes
    ----------
    ratio
        What stations take, where a tree takes 1.
    busy
        By join, what it takes now.
    before
        By join that has changed, what it took in the other way.
    """

    ratio: float = USUAL
    busy: Mapping[str, Busy] = field(default_factory=dict)
    before: Mapping[str, float] = field(default_factory=dict)

    def after(self, seen: Mapping[str, tuple[bool, float]]) -> StationWork:
        """What is known after a step; `seen` has whether a join is at stations, and its CPU seconds.

        >>> work = StationWork()
        >>> for at_stations, busy_s in [(False, 1.0)] * 6 + [(True, 9.0)] * 2 + [(True, 1.2)] * 4:
        ...     work = work.after({"q": (at_stations, busy_s)})
        >>> round(work.ratio, 2)
        1.35
        """
        ratio, busy, before = self.ratio, dict(self.busy), dict(self.before)
        for name, (at_stations, busy_s) in seen.items():
            known = busy.get(name, Busy(at_stations))
            if known.at_stations != at_stations:
                before.pop(name, None)
                if known.is_known:
                    before[name] = known.mean_s
                known = Busy(at_stations)
            busy[name] = known = known.after(busy_s)
            if known.is_known and name in before:
                other_s = before.pop(name)
                found = known.mean_s / other_s if at_stations else other_s / known.mean_s
                ratio = (ratio + found) / 2 if LEAST <= found <= MOST else ratio
        return StationWork(ratio, busy, before)

    def of(self, joins: frozenset[str]) -> StationWork:
        """What is known of some joins."""
        busy = {name: its for name, its in self.busy.items() if name in joins}
        return StationWork(self.ratio, busy, {n: s for n, s in self.before.items() if n in joins})

    def to_json(self) -> dict[str, Any]:
        busy = {name: list(its) for name, its in self.busy.items()}
        return {"ratio": self.ratio, "busy": busy, "before": dict(self.before)}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> StationWork:
        busy = {name: Busy(*its) for name, its in data.get("busy", {}).items()}
        return cls(data.get("ratio", USUAL), busy, dict(data.get("before", {})))
