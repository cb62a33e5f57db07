"""Joins that no key spreads: random predicates of any kind between 2 to 6 references, and rows for them."""

from __future__ import annotations

import random

import numpy as np
import pyarrow as pa

from anabranch.plan.logical import Column, Stream

NAMES = "abcdef"
STREAMS = tuple(
    Stream(
        name,
        (
            Column("id", "bigint"),
            Column("k", "bigint"),
            Column("x", "double"),
            Column("y", "double"),
            Column("ts", "timestamp"),
        ),
        "ts",
        3_000_000,
    )
    for name in NAMES
)


def random_theta_join(draw: random.Random, references: int) -> str:
    """A join with predicates of any kind along a tree; at least one edge has no equality."""
    names = NAMES[:references]
    edges = [(draw.choice(names[:i]), name) for i, name in enumerate(names[1:], start=1)]
    without = draw.randrange(len(edges))
    predicates = [_predicate(draw, *edge, theta=i == without) for i, edge in enumerate(edges)]
    windows = ", ".join(f"{name} [RANGE {draw.choice((0, 1, 2, 4))} SECONDS]" for name in names)
    columns = ", ".join(f"{name}.id AS {name}" for name in names)
    return f"SELECT {columns} FROM {windows} WHERE {' AND '.join(predicates)}"


def _predicate(draw: random.Random, left: str, right: str, *, theta: bool) -> str:
    kinds = [
        f"abs({left}.x - {right}.x) <= {draw.choice((1, 2, 3))}",
        f"{left}.x BETWEEN {right}.x AND {right}.y",
        f"{left}.id < {right}.id",
        f"({left}.id = {right}.id OR {left}.x > {right}.y)",
        f"l2_distance(array({left}.x, {left}.y), array({right}.x, {right}.y)) < 2.5",
    ]
    return draw.choice(kinds if theta else [*kinds, *[f"{left}.k = {right}.k"] * 3])


def random_batches(draw: random.Random, batches: int, *, most: int = 14) -> list[dict[str, pa.Table]]:
    """Rows out of order, some late, some with NULLs."""
    return [
        {s.name: _rows(draw, draw.choice((0, 4, most)), 10_000_000 + i * 1_000_000) for s in STREAMS}
        for i in range(batches)
    ]


def _rows(draw: random.Random, rows: int, begin_us: int) -> pa.Table:
    columns = {"id": pa.array([draw.randrange(40) for _ in range(rows)], pa.int64())}
    columns["k"] = pa.array([draw.choice((None, 0, 1, 2, 3)) for _ in range(rows)], pa.int64())
    for name in "xy":
        values = [draw.choice((None, float("nan"), *range(10), *range(10))) for _ in range(rows)]
        columns[name] = pa.array(values, pa.float64())
    times = np.array([begin_us + draw.randrange(-4_000_000, 2_000_000) for _ in range(rows)], dtype=np.int64)
    return pa.table(columns | {"ts": pa.array(times).cast(pa.timestamp("us"))})
