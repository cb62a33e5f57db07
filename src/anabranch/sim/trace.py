"""What a simulated run looked like, second by second."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from anabranch.adapt.balance.proposal import Move
from anabranch.adapt.events import Event
from anabranch.exchange.partition_map import PartitionMap


@dataclass(frozen=True, slots=True)
class Trace:
    """Result of a run.

    Attributes
    ----------
    seconds
        End of each interval.
    throughput
        Rows per second, all sites together, per interval.
    latency_s
        Mean time, per interval, from a row's arrival at its site to its processing.
    moves
        Finished moves with the time they were finished.
    spilled_by_site
        Partitions on each site's disk at the end.
    """

    seconds: tuple[float, ...]
    throughput: tuple[float, ...]
    latency_s: tuple[float, ...]
    moves: tuple[tuple[float, Move], ...]
    events: tuple[Event, ...]
    partition_map: PartitionMap
    produced: int
    processed: int
    left_inside: int
    spilled_by_site: tuple[int, ...]

    @property
    def spilled_at_end(self) -> int:
        return sum(self.spilled_by_site)

    def mean_throughput(self, start_s: float = 0.0, end_s: float = np.inf) -> float:
        return self._mean(self.throughput, start_s, end_s)

    def mean_latency(self, start_s: float = 0.0, end_s: float = np.inf) -> float:
        """Over rows, not over intervals."""
        rows = self._mean(self.throughput, start_s, end_s)
        weighted = tuple(t * lat for t, lat in zip(self.throughput, self.latency_s, strict=True))
        return self._mean(weighted, start_s, end_s) / rows if rows > 0 else 0.0

    def last_move_s(self) -> float:
        return self.moves[-1][0] if self.moves else 0.0

    def steady_from(self, share: float, *, over: int = 1) -> float:
        """End of the last `over` intervals whose mean throughput is below `share` of the final level.

        A level is a mean: single intervals scatter, and the longer the run, the later the last of them that
        happens to be low. `over` must be so long that the scatter of the mean is well below 1 - `share`.
        """
        final = self.mean_throughput(self.seconds[-1] * 0.8)
        means = np.convolve(self.throughput, np.full(over, 1 / over), "valid")
        below = np.flatnonzero(means < share * final)
        return self.seconds[below[-1] + over - 1] if len(below) else 0.0

    def reaches(self, share: float) -> float:
        """End of the first second that has `share` of the final throughput, whatever comes after it."""
        final = self.mean_throughput(self.seconds[-1] * 0.8)
        return next(s for s, t in zip(self.seconds, self.throughput, strict=True) if t >= share * final)

    def _mean(self, values: tuple[float, ...], start_s: float, end_s: float) -> float:
        chosen = [v for s, v in zip(self.seconds, values, strict=True) if start_s < s - 1e-9 <= end_s]
        return float(np.mean(chosen)) if chosen else 0.0
