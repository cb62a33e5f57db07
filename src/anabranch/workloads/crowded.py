"""Streams that crowd onto few partitions, and later onto others: what a partition map is for."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from anabranch.exchange.address import PARTITIONS, partition_of
from anabranch.operators.rows.arrays import Int64s
from anabranch.workloads.spark_hash import xxhash64_longs
from anabranch.workloads.stream_files import Clock, Workload, utc_times, write_stream

Floats = npt.NDArray[np.float64]

KEYS_PER_PARTITION = 40
EXPONENT, FLATTENED = 1.2, 5.0
FEW, MANY = 0.001, 0.3
"""Shares of the rows of a stream that have a partner."""


def crowded_streams(
    root: Path,
    *,
    batches: int = 40,
    rows_per_batch: int = 20_000,
    shift_every: int = 20,
    interval_us: int = 1_000_000,
    seed: int = 0,
) -> Workload:
    """Write stream `a`, crowded, and stream `b`, uniform, of `id, k, v, ts`.

    The load of partitions follows Zipf's law, flattened at its head so that no partition alone is more
    than a site can do: weight (rank + 5)^-1.2. Ranks follow the numbers of the partitions, so
    that the crowd starts out on one site; every `shift_every` batches they rotate by a third.
    """
    keys = _keys_by_partition()
    clock = Clock(batches, rows_per_batch, interval_us, 0, seed)

    def table_of(batch: int, *, crowded: bool) -> pa.Table:
        rng, _, ts = clock.rows_of(batch, stream=0 if crowded else 1)
        load = _crowd(batch // shift_every) if crowded else np.ones(PARTITIONS)
        key = _drawn(rng, keys, load, len(ts))
        number = clock.first_id(batch) + np.arange(len(ts))
        return pa.table({"id": number, "k": key, "v": rng.random(len(ts)), "ts": utc_times(ts)})

    made = (
        write_stream(root, "a", batches, lambda batch: table_of(batch, crowded=True)),
        write_stream(root, "b", batches, lambda batch: table_of(batch, crowded=False)),
    )
    return Workload(made, batches, interval_us, 0)


def turning_streams(
    root: Path,
    *,
    batches: int = 24,
    rows_per_batch: int = 20_000,
    turn_at: int = 8,
    window: int = 4,
    interval_us: int = 1_000_000,
    seed: int = 0,
) -> Workload:
    """Write streams `a`, `b`, `c` and `d` of `id, k, x, ts`; at batch `turn_at` everything turns.

    `a` is crowded and its crowd goes elsewhere, as in `crowded_streams`. Of the rows of `b`, only the share
    `FEW` has a key that other streams have; after the turn it is so with `c`, and the share `MANY` of `b` has
    one once a window (in batches) has passed, so that there is no time with many of both. `d` stays as it is.
    """
    keys = _keys_by_partition()[:, :4]  # few, so that a row has many partners
    clock = Clock(batches, rows_per_batch, interval_us, 0, seed)

    def partners(stream: int, batch: int) -> float:
        if stream == 1:
            return FEW if batch < turn_at + window else MANY
        return FEW if stream == 2 and batch >= turn_at else 1.0

    def table_of(stream: int, batch: int) -> pa.Table:
        rng, _, ts = clock.rows_of(batch, stream=stream)
        crowd = np.roll(
            _crowd(0), 3 * PARTITIONS // 8 if batch >= turn_at else 0
        )  # of site 0, then 3, of eight
        key = _drawn(rng, keys, crowd if stream == 0 else np.ones(PARTITIONS), len(ts))
        key = np.where(rng.random(len(ts)) < partners(stream, batch), key, -1 - key)
        number = clock.first_id(batch) + np.arange(len(ts))
        return pa.table({"id": number, "k": key, "x": rng.random(len(ts)), "ts": utc_times(ts)})

    names = enumerate("abcd")
    made = (write_stream(root, name, batches, partial(table_of, stream)) for stream, name in names)
    return Workload(tuple(made), batches, interval_us, 0)


def _crowd(turns: int) -> Floats:
    """Weights of the partitions after so many turns."""
    weights = (np.arange(PARTITIONS, dtype=np.float64) + FLATTENED) ** -EXPONENT
    return np.roll(weights, turns * (PARTITIONS // 3))


def _drawn(rng: np.random.Generator, keys: Int64s, load: Floats, rows: int) -> Int64s:
    """Keys of rows that fall into partitions by their load."""
    partition = rng.choice(PARTITIONS, rows, p=load / load.sum())
    drawn: Int64s = keys[partition, rng.integers(0, keys.shape[1], rows)]
    return drawn


def _keys_by_partition() -> Int64s:
    """Keys of which Spark's hash puts `KEYS_PER_PARTITION` into every partition."""
    candidates = np.arange(PARTITIONS * KEYS_PER_PARTITION * 4, dtype=np.int64)
    partition = partition_of(xxhash64_longs(candidates))
    by_partition = [candidates[partition == p][:KEYS_PER_PARTITION] for p in range(PARTITIONS)]
    return np.stack(by_partition)
