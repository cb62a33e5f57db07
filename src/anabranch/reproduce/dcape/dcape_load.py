"""The workload of the D-CAPE experiments: three streams, half of their rows on one of eight sites.

D-CAPE, sections 5.2 and 5.3: A ⋈ B ⋈ C, Poisson arrivals, 100 partitions, one machine with half of
the load; in some experiments B and C fall from 100 to 5 rows a second at the 30th. Open in the paper:

- Of our 256 partitions 100 have rows: all 32 of site 0, with half of the rows, and 68 of the seven others.
- All three join on `k`, by which rows are routed. Each two also agree on another column, so that every
  pair of streams meets equally often and results are few: while rates are equal, no order is better.
- Rates are the paper's times a factor: 100 rows a second take this engine no time that could be measured.
- A's rows are wide (`v`), so that intermediate rows with A in them cost more than those without.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from anabranch.exchange.address import PARTITIONS, partition_of
from anabranch.exchange.partition_map import PartitionMap
from anabranch.language.flow import bind_query
from anabranch.operators.rows.arrays import Int64s
from anabranch.plan.logical import Column, Query, Stream

SITES = 8
ACTIVE = 100
"""Partitions with rows."""
NAMES = ("a", "b", "c")
COLUMNS = ("a", "b", "c", "v")
"""Of the results."""
TEXTS = pa.array([f"{i:060d}" for i in range(100)])
STREAMS = tuple(
    Stream(
        name, (*(Column(c, "bigint") for c in ("id", "k", "x", "y", "ts")), Column("v", "string")), "ts", 0
    )
    for name in NAMES
)

Hash = Callable[[Int64s], Int64s]


@dataclass(frozen=True, slots=True)
class Load:
    """Three streams over some seconds of event time.

    Attributes
    ----------
    rate, low_rate
        Rows a second of every stream; those of `b` and `c` from second `drop_s` on.
    keys, values
        Different `k`, and different values of the columns by which two streams agree.
    """

    rate: float
    window_s: float
    low_rate: float | None = None
    drop_s: float = 30.0
    length_s: float = 90.0
    interval_s: float = 3.0
    keys: int = 1_000
    values: int = 20
    seed: int = 0

    @property
    def batches(self) -> int:
        return round(self.length_s / self.interval_s)

    @property
    def query(self) -> Query:
        return bind_query("q", self.text, {s.name: s for s in STREAMS})

    @property
    def text(self) -> str:
        window = f"[RANGE {round(self.window_s * 1e6)} MICROSECONDS]"
        return (
            "SELECT a.id AS a, b.id AS b, c.id AS c, a.v AS v "
            f"FROM {', '.join(f'{name} {window}' for name in NAMES)} "
            "WHERE a.k = b.k AND b.k = c.k AND a.x = b.x AND b.y = c.y AND c.x = a.y"
        )

    def tables(self, hashed: Hash) -> Iterator[dict[str, pa.Table]]:
        """The rows of every batch, with keys that `hashed` sends to the partitions they should be in."""
        keys = skewed_keys(self.keys, hashed)
        for batch in range(self.batches):
            yield {name: self._rows(name, batch, keys) for name in NAMES}

    def _rows(self, name: str, batch: int, keys: Int64s) -> pa.Table:
        rng = np.random.default_rng([self.seed, batch, NAMES.index(name)])
        dropped = self.low_rate is not None and name != "a" and batch * self.interval_s >= self.drop_s
        rate = self.low_rate if dropped and self.low_rate is not None else self.rate
        size = int(rng.poisson(rate * self.interval_s))
        interval_us = round(self.interval_s * 1e6)
        columns = {
            "id": batch * 100_000_000 + np.arange(size),
            "k": keys[rng.integers(0, len(keys), size)],
            "x": rng.integers(0, self.values, size),
            "y": rng.integers(0, self.values, size),
            "ts": batch * interval_us + np.sort(rng.integers(0, interval_us, size)),
            "v": TEXTS.take(pa.array(rng.integers(0, len(TEXTS), size))),
        }
        return pa.table(columns)


def skewed_keys(number: int, hashed: Hash) -> Int64s:
    """Keys of which half belong to site 0, the others in equal numbers to the other sites.

    >>> from anabranch.workloads.spark_hash import xxhash64_longs
    >>> partitions = np.unique(partition_of(xxhash64_longs(skewed_keys(5_000, xxhash64_longs))))
    >>> len(partitions), int((partitions < 32).sum())
    (100, 32)
    """
    candidates = np.arange(64 * number + 100_000, dtype=np.int64)
    partition = partition_of(hashed(candidates))
    site_of = PartitionMap.even(SITES).as_array()
    others = [np.flatnonzero(site_of == site) for site in range(1, SITES)]
    first = np.flatnonzero(site_of == 0)
    shares = np.array_split(np.arange(ACTIVE - len(first)), len(others))
    pools = [(first, number // 2)]
    pools += [(own[: len(s)], number // 2 // len(others)) for own, s in zip(others, shares, strict=True)]
    found = []
    for active, wanted in pools:
        is_active = np.zeros(PARTITIONS, dtype=bool)
        is_active[active] = True
        mine = candidates[is_active[partition]]
        if len(mine) < wanted:
            raise ValueError(f"too few candidates for {number} keys")
        found.append(mine[:wanted])
    return np.concatenate(found)
