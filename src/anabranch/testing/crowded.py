"""Streams that crowd onto few partitions, and later onto others: what a partition map is for."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa

from anabranch.exchange.partition_map import PARTITIONS, partition_of
from anabranch.operators.order import Int64s
from anabranch.testing.spark_hash import xxhash64_longs
from anabranch.testing.stream_files import Clock, Workload, utc_times, write_stream

KEYS_PER_PARTITION = 40
EXPONENT, FLATTENED = 1.2, 5.0


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
    weights = (np.arange(PARTITIONS) + FLATTENED) ** -EXPONENT
    clock = Clock(batches, rows_per_batch, interval_us, 0, seed)

    def table_of(batch: int, *, crowded: bool) -> pa.Table:
        rng, _, ts = clock.rows_of(batch, stream=0 if crowded else 1)
        turned = (
            np.roll(weights, (batch // shift_every) * (PARTITIONS // 3)) if crowded else np.ones(PARTITIONS)
        )
        partition = rng.choice(PARTITIONS, len(ts), p=turned / turned.sum())
        key = keys[partition, rng.integers(0, KEYS_PER_PARTITION, len(ts))]
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
    rows_per_batch: int = 10_000,
    turn_at: int = 12,
    partners: float = 0.03,
    interval_us: int = 1_000_000,
    seed: int = 0,
) -> Workload:
    """Write streams `a`, `b` and `c` of `id, k, ts`; at batch `turn_at` everything turns.

    `a` is crowded and its crowd goes elsewhere, as in `crowded_streams`. Of the rows of `b`, only the share
    `partners` has a key that other streams have; after the turn it is so with `c`, and `b` is like any other.
    """
    keys = _keys_by_partition()
    weights = (np.arange(PARTITIONS) + FLATTENED) ** -EXPONENT
    clock = Clock(batches, rows_per_batch, interval_us, 0, seed)

    def table_of(stream: int, batch: int) -> pa.Table:
        rng, _, ts = clock.rows_of(batch, stream=stream)
        turned = batch >= turn_at
        load = np.roll(weights, PARTITIONS // 3 if turned else 0) if stream == 0 else np.ones(PARTITIONS)
        partition = rng.choice(PARTITIONS, len(ts), p=load / load.sum())
        key = keys[partition, rng.integers(0, KEYS_PER_PARTITION, len(ts))]
        if stream == (2 if turned else 1):
            alone = rng.random(len(ts)) > partners
            key = np.where(alone, -1 - key, key)
        return pa.table({"id": clock.first_id(batch) + np.arange(len(ts)), "k": key, "ts": utc_times(ts)})

    made = [
        write_stream(root, name, batches, lambda batch, stream=stream: table_of(stream, batch))  # type: ignore[misc]
        for stream, name in enumerate("abc")
    ]
    return Workload(tuple(made), batches, interval_us, 0)


def _keys_by_partition() -> Int64s:
    """Keys of which Spark's hash puts `KEYS_PER_PARTITION` into every partition."""
    candidates = np.arange(PARTITIONS * KEYS_PER_PARTITION * 4, dtype=np.int64)
    partition = partition_of(xxhash64_longs(candidates))
    by_partition = [candidates[partition == p][:KEYS_PER_PARTITION] for p in range(PARTITIONS)]
    return np.stack(by_partition)
