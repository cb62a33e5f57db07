"""Deterministic workloads: uniform, skewed and three-way keyed streams, and the auction house."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from anabranch.workloads.auction import auction_streams
from anabranch.workloads.stream_files import (
    Clock,
    Ints,
    StreamFiles,
    Workload,
    joined,
    utc_times,
    write_stream,
)

__all__ = [
    "StreamFiles",
    "Workload",
    "auction_streams",
    "skewed_streams",
    "three_streams",
    "uniform_streams",
]

KeyType = Literal["int", "string"]
KeyDraw = Callable[[np.random.Generator, int, int], Ints]
"""(random numbers, batch, rows) → keys."""

KEYS_PER_ROW = 6.8
"""Keys per row of a batch in `uniform_streams`: with a window of 10 batches, 22 batches of 50,000 rows
give (22² - 12²) · 50,000² / (6.8 · 50,000) = 2.5 million pairs; any other batch size, as many per row."""


def uniform_streams(
    root: Path,
    *,
    batches: int = 22,
    rows_per_batch: int = 50_000,
    key_space: int | None = None,
    interval_us: int = 1_000_000,
    disorder_us: int = 0,
    seed: int = 0,
    keys: KeyType = "int",
    names: tuple[str, ...] = ("a", "b"),
) -> Workload:
    """Write streams of `id, k, v, ts` whose keys are uniform: the benchmark's workload.

    Without `key_space`, matches per row do not depend on `rows_per_batch` (see `KEYS_PER_ROW`).

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as root:
    ...     work = uniform_streams(Path(root), batches=3, rows_per_batch=100)
    ...     [(s.name, s.rows, len(list(s.path.iterdir()))) for s in work.streams]
    [('a', 300, 3), ('b', 300, 3)]
    """
    space = max(1, round(KEYS_PER_ROW * rows_per_batch)) if key_space is None else key_space

    def draw(rng: np.random.Generator, batch: int, rows: int) -> Ints:
        return rng.integers(0, space, rows)

    clock = Clock(batches, rows_per_batch, interval_us, disorder_us, seed)
    return _keyed_streams(root, clock, keys, dict.fromkeys(names, draw))


def three_streams(
    root: Path,
    *,
    batches: int = 22,
    rows_per_batch: int = 50_000,
    key_space: int | None = None,
    interval_us: int = 1_000_000,
    disorder_us: int = 0,
    seed: int = 0,
    keys: KeyType = "int",
) -> Workload:
    """Write streams `a`, `b` and `c` on one key.

    With a window of W batches of n rows on each stream, a row meets about 3 · (W · n / keys)² pairs of
    the two others: the default key space makes that about 1 for W = 10.
    """
    return uniform_streams(
        root,
        batches=batches,
        rows_per_batch=rows_per_batch,
        key_space=max(1, 17 * rows_per_batch) if key_space is None else key_space,
        interval_us=interval_us,
        disorder_us=disorder_us,
        seed=seed,
        keys=keys,
        names=("a", "b", "c"),
    )


def skewed_streams(
    root: Path,
    *,
    batches: int = 22,
    rows_per_batch: int = 50_000,
    key_space: int | None = None,
    exponent: float = 1.0,
    skewed: tuple[str, ...] = ("a",),
    shift_every: int | None = None,
    interval_us: int = 1_000_000,
    disorder_us: int = 0,
    seed: int = 0,
    keys: KeyType = "int",
    names: tuple[str, ...] = ("a", "b"),
) -> Workload:
    """Write streams of which those named in `skewed` draw their keys from Zipf's law.

    While one side stays uniform, there are as many matches as in `uniform_streams`; they are only
    crowded onto few keys. `shift_every` batches, other keys become the frequent ones.
    """
    space = max(1, round(KEYS_PER_ROW * rows_per_batch)) if key_space is None else key_space
    cumulative = np.cumsum(1.0 / np.arange(1, space + 1) ** exponent)
    key_of_rank: Ints = np.random.default_rng([seed, 0x5EED]).permutation(space)

    def zipf(rng: np.random.Generator, batch: int, rows: int) -> Ints:
        rank = np.searchsorted(cumulative, rng.random(rows) * cumulative[-1], side="right")
        era = batch // shift_every if shift_every else 0
        shifted = (np.minimum(rank, space - 1) + era * (space // 7 + 1)) % space
        keys_drawn: Ints = np.take(key_of_rank, shifted)
        return keys_drawn

    def uniform(rng: np.random.Generator, batch: int, rows: int) -> Ints:
        return rng.integers(0, space, rows)

    clock = Clock(batches, rows_per_batch, interval_us, disorder_us, seed)
    return _keyed_streams(root, clock, keys, {n: zipf if n in skewed else uniform for n in names})


def _keyed_streams(root: Path, clock: Clock, keys: KeyType, draws: dict[str, KeyDraw]) -> Workload:
    def table_of(batch: int, stream: int, draw: KeyDraw) -> pa.Table:
        rng, _, ts = clock.rows_of(batch, stream=stream)
        key: Ints | pa.Array = draw(rng, batch, len(ts))
        if keys == "string":
            key = joined("customer", "-", pc.cast(pa.array(key), pa.string()))
        number = clock.first_id(batch) + np.arange(len(ts))
        return pa.table({"id": number, "k": key, "v": rng.random(len(ts)), "ts": utc_times(ts)})

    made = tuple(
        write_stream(root, name, clock.batches, lambda batch, s=stream, d=draw: table_of(batch, s, d))  # type: ignore[misc]
        for stream, (name, draw) in enumerate(draws.items())
    )
    return Workload(made, clock.batches, clock.interval_us, clock.disorder_us)
