"""What the sites and partitions did: the only thing policies learn about the world."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True, eq=False)
class Statistics:
    """Counts of one batch, or of all batches of a round.

    Attributes
    ----------
    length_s
        How long the sites were watched (Flux, section 5.3: δ). On Spark it is the critical path, the
        busy time of the busiest site: what a cluster with one machine per site would have waited for.
    busy_s, idle_s
        Per site. Idle is time in which the site had nothing to do.
    rows, probes, matches
        Per partition: rows processed, index probes, joined pairs.
    state_bytes, pending_rows, on_disk
        Per partition, at the end: size of its state, rows spooled for it, whether it is spilled.
    memory_bytes
        Per site: its budget; infinite without one.
    overhead_s
        Time that passed beside the work of the busiest site: planning, reading, committing. No move saves it.
    """

    length_s: float
    busy_s: Floats
    idle_s: Floats
    rows: Ints
    probes: Ints
    matches: Ints
    state_bytes: Ints
    pending_rows: Ints
    on_disk: Flags
    memory_bytes: Floats
    overhead_s: float = 0.0

    @classmethod
    def of_batch(
        cls,
        busy_s: npt.ArrayLike,
        rows: npt.ArrayLike,
        *,
        probes: npt.ArrayLike | None = None,
        matches: npt.ArrayLike | None = None,
        state_bytes: npt.ArrayLike | None = None,
        pending_rows: npt.ArrayLike | None = None,
        on_disk: npt.ArrayLike | None = None,
        memory_bytes: npt.ArrayLike | None = None,
        length_s: float | None = None,
        overhead_s: float = 0.0,
    ) -> Statistics:
        """Build from what a driver measured; what it did not measure counts as none.

        A site waits for the busiest one, so its idle time is the batch's length less its busy time.

        >>> batch = Statistics.of_batch([0.3, 0.1], rows=[60, 40, 50])
        >>> batch.length_s, batch.idle_s.round(3).tolist()
        (0.3, [0.0, 0.2])
        >>> batch.utilisation.round(2).tolist()
        [1.0, 0.33]
        """
        busy = np.asarray(busy_s, dtype=np.float64)
        counted = np.asarray(rows, dtype=np.int64)
        length = float(busy.max(initial=0.0)) if length_s is None else length_s
        return cls(
            length_s=length,
            busy_s=busy,
            idle_s=np.maximum(length - busy, 0.0),
            rows=counted,
            probes=_ints(probes, like=counted),
            matches=_ints(matches, like=counted),
            state_bytes=_ints(state_bytes, like=counted),
            pending_rows=_ints(pending_rows, like=counted),
            on_disk=np.zeros(len(counted), np.bool_) if on_disk is None else np.asarray(on_disk, np.bool_),
            memory_bytes=(
                np.full(len(busy), np.inf)
                if memory_bytes is None
                else np.asarray(memory_bytes, dtype=np.float64)
            ),
            overhead_s=overhead_s,
        )

    @property
    def sites(self) -> int:
        return len(self.busy_s)

    @property
    def partitions(self) -> int:
        return len(self.rows)

    @property
    def utilisation(self) -> Floats:
        """U_j = 1 - I_j / δ (Flux, section 5.3)."""
        if self.length_s <= 0:
            return np.zeros(self.sites)
        return np.clip(1.0 - self.idle_s / self.length_s, 0.0, 1.0)

    def then(self, later: Statistics) -> Statistics:
        """Both periods as one: what flows is added, what stands is as of the later one."""
        return Statistics(
            length_s=self.length_s + later.length_s,
            busy_s=self.busy_s + later.busy_s,
            idle_s=self.idle_s + later.idle_s,
            rows=self.rows + later.rows,
            probes=self.probes + later.probes,
            matches=self.matches + later.matches,
            state_bytes=later.state_bytes,
            pending_rows=later.pending_rows,
            on_disk=later.on_disk,
            memory_bytes=later.memory_bytes,
            overhead_s=self.overhead_s + later.overhead_s,
        )


def sum_by_site(values: npt.NDArray[Any], site_of: npt.NDArray[Any], sites: int) -> Floats:
    """Add up what belongs to each site.

    >>> sum_by_site(np.array([1.0, 2.0, 4.0]), np.array([1, 0, 1]), 3).tolist()
    [2.0, 5.0, 0.0]
    """
    return np.bincount(site_of, weights=values, minlength=sites).astype(np.float64)


def _ints(values: npt.ArrayLike | None, *, like: Ints) -> Ints:
    return np.zeros(len(like), np.int64) if values is None else np.asarray(values, dtype=np.int64)
