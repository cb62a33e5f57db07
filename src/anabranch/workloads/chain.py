"""Three streams in a chain without a common key, `r.u = s.u AND s.v = t.v`, with chosen selectivities.

Most rows are of the stream in the middle, which may meet either neighbour first. The selectivity of a station
is the number of rows that come of a row of s there. It is set by how many values the key has.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from anabranch.language.flow import bind_query
from anabranch.plan.logical import Column, Query, Stream

BATCH_US = 1_000_000
_KEYS = (Column("u", "bigint"), Column("v", "bigint"))
STREAMS = tuple(
    Stream(name, (Column("id", "bigint"), *_KEYS, Column("ts", "timestamp")), "ts") for name in "rst"
)
_SPREAD = 1_000_003
"""Keys are spread, so that hot ones do not lie side by side."""

Selectivities = Callable[[int], tuple[float, float]]
"""By batch: rows that come of a row of s at the stations r–s and s–t."""


@dataclass(frozen=True, slots=True)
class Chain:
    """A load.

    Attributes
    ----------
    middle, ends
        Rows of s, and of r and t each, in a batch.
    window_batches
        Length of the windows.
    """

    middle: int = 40_000
    ends: int = 4_000
    window_batches: int = 2

    def query(self, name: str = "chain") -> Query:
        window = f"[RANGE {self.window_batches * BATCH_US} MICROSECONDS]"
        text = (
            f"SELECT r.id AS r, s.id AS s, t.id AS t FROM r {window}, s {window}, t {window} "
            "WHERE r.u = s.u AND s.v = t.v"
        )
        return bind_query(name, text, {stream.name: stream for stream in STREAMS})

    def batches(self, number: int, at: Selectivities, *, seed: int = 1) -> Iterator[dict[str, pa.Table]]:
        """Uniform keys: each row of s has the same prospects."""
        rng = np.random.default_rng(seed)
        for batch in range(number):
            by_u, by_v = (self._values(selectivity) for selectivity in at(batch))
            yield {
                "r": self._rows(rng, batch, self.ends, u=rng.integers(0, by_u, self.ends)),
                "t": self._rows(rng, batch, self.ends, v=rng.integers(0, by_v, self.ends)),
                "s": self._rows(
                    rng,
                    batch,
                    self.middle,
                    u=rng.integers(0, by_u, self.middle),
                    v=rng.integers(0, by_v, self.middle),
                ),
            }

    def correlated(
        self, number: int, *, hot: int = 12, low: float = 0.1, high: float = 6.0, seed: int = 1
    ) -> Iterator[dict[str, pa.Table]]:
        """Two halves of s: one has hot keys in u and rare ones in v, the other the reverse.

        Half of r and t have hot keys, too: a row of s meets `high` of them, and `low` where its key is rare.
        """
        rng = np.random.default_rng(seed)
        shown = round(2 * self.window_batches * self.ends / high / 2)
        hot, rare = min(hot, shown), self._values(low)
        for batch in range(number):
            first = rng.random(self.middle) < 0.5
            hot_keys, rare_keys = (
                [_SPREAD * (1 + rng.integers(0, n, self.middle)) for _ in range(2)] for n in (hot, rare)
            )
            ends = [
                np.where(
                    rng.random(self.ends) < high * hot / (2 * self.window_batches * self.ends),
                    _SPREAD * (1 + rng.integers(0, hot, self.ends)),
                    -1 - rng.integers(0, rare, self.ends),
                )
                for _ in range(2)
            ]
            yield {
                "r": self._rows(rng, batch, self.ends, u=ends[0]),
                "t": self._rows(rng, batch, self.ends, v=ends[1]),
                "s": self._rows(
                    rng,
                    batch,
                    self.middle,
                    u=np.where(first, hot_keys[0], -rare_keys[0] // _SPREAD),
                    v=np.where(first, -rare_keys[1] // _SPREAD, hot_keys[1]),
                ),
            }

    def _values(self, selectivity: float) -> int:
        """Values of a key such that a row of s meets so many rows: before it and after it."""
        return max(1, round(2 * self.window_batches * self.ends / max(selectivity, 1e-6)))

    def _rows(
        self,
        rng: np.random.Generator,
        batch: int,
        rows: int,
        *,
        u: np.ndarray | None = None,
        v: np.ndarray | None = None,
    ) -> pa.Table:
        none = np.zeros(rows, dtype=np.int64)
        times = batch * BATCH_US + np.sort(rng.integers(0, BATCH_US, rows))
        return pa.table(
            {
                "id": np.arange(batch * rows, (batch + 1) * rows),
                "u": none if u is None else u.astype(np.int64),
                "v": none if v is None else v.astype(np.int64),
                "ts": pa.array(times, pa.timestamp("us", tz="UTC")),
            }
        )


def flipping(low: float, high: float, *, every: int) -> Selectivities:
    """Stations that change roles every so many batches.

    >>> at = flipping(0.1, 5.0, every=10)
    >>> at(9), at(10)
    ((0.1, 5.0), (5.0, 0.1))
    """
    return lambda batch: (high, low) if batch // every % 2 else (low, high)
