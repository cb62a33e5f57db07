"""Joins without a key that all streams share: trees of references, rows for them, and shares at random."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from unittest import mock

import numpy as np
import pyarrow as pa

from anabranch.exchange.address import PARTITIONS
from anabranch.exchange.station_router import PARTS, States, StationRouter, Ways
from anabranch.plan.logical import Column, Stream

KEYS = ("u", "v", "w")
EIGHT = tuple(
    Stream(
        name,
        (Column("id", "bigint"), *(Column(key, "bigint") for key in KEYS), Column("ts", "timestamp")),
        "ts",
        3_000_000,
    )
    for name in "abcdefgh"
)
STREAMS = EIGHT[:5]


def random_tree(draw: random.Random, references: int) -> str:
    """A join along the edges of a tree, each on a key of its own, sometimes with more predicates.

    In a third of them some references are of one stream, each with a window of its own.
    """
    names = "abcdefgh"[:references]
    streams = draw.choices(names, k=references) if draw.random() < 0.3 else names
    predicates = []
    for i, name in enumerate(names[1:], start=1):
        other = draw.choice(names[:i])
        predicates.append(f"{other}.{draw.choice(KEYS)} = {name}.{draw.choice(KEYS)}")
    if draw.random() < 0.4:
        left, right = draw.sample(names, 2)
        predicates.append(
            draw.choice(
                [
                    f"{left}.id < {right}.id",
                    f"{left}.u = {right}.w",
                    f"{left}.v <> {right}.v",
                    f"({left}.id < {right}.id OR {left}.w = {right}.w)",
                ]
            )
        )
    windows = ", ".join(
        f"{stream} [RANGE {draw.choice((1, 2, 4))} SECONDS] AS {name}"
        for stream, name in zip(streams, names, strict=True)
    )
    columns = ", ".join(f"{name}.id AS {name}" for name in names)
    return f"SELECT {columns} FROM {windows} WHERE {' AND '.join(predicates)}"


def random_batches(
    draw: random.Random,
    batches: int,
    *,
    most: int = 12,
    streams: Sequence[Stream] = STREAMS,
    keys: int = 5,
) -> list[dict[str, pa.Table]]:
    """Rows out of order, some late, some with NULL keys; each key has so many values."""
    return [
        {s.name: _rows(draw, draw.choice((0, 3, most)), 10_000_000 + i * 1_000_000, keys) for s in streams}
        for i in range(batches)
    ]


def _rows(draw: random.Random, rows: int, begin_us: int, keys: int) -> pa.Table:
    columns: dict[str, pa.Array] = {"id": pa.array([draw.randrange(50) for _ in range(rows)], pa.int64())}
    for key in KEYS:
        values = [None if draw.random() < 0.05 else draw.randrange(keys) for _ in range(rows)]
        columns[key] = pa.array(values, pa.int64())
    times = np.array([begin_us + draw.randrange(-4_000_000, 2_000_000) for _ in range(rows)], dtype=np.int64)
    columns["ts"] = pa.array(times).cast(pa.timestamp("us"))
    return pa.table(columns)


@contextmanager
def any_way(seed: int) -> Iterator[None]:
    """While it lasts, every choice of a station is split anew for every batch, for no reason at all."""

    def ways_of(_: StationRouter, states: States) -> Ways:
        draw = random.Random(f"{seed} {states} {next(calls)}")
        cuts = sorted(draw.choice((0, PARTS, draw.randrange(PARTS + 1))) for _ in states)
        drawn = tuple(end - start for start, end in zip([0, *cuts[:-1]], cuts, strict=True))
        partitions = draw.choice((1, PARTITIONS))
        return Ways(tuple(tuple(draw.choices(range(3), k=partitions)) for _ in states), drawn)

    calls = iter(range(1 << 30))
    with mock.patch.object(StationRouter, "ways_of", ways_of):
        yield


def names_of(streams: Sequence[Stream]) -> dict[str, Stream]:
    return {stream.name: stream for stream in streams}
