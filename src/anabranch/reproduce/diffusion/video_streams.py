"""Three streams of pictures in a space of 40 concepts, and the join of those that are alike.

A stream shows one scene for a while, then another; scenes come again in other streams, so that pictures have
a few matches in the windows of the others.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from anabranch.language.flow import bind_query
from anabranch.plan.logical import Column, Query, Stream

DIMENSIONS = 40
NAMES = ("a", "b", "c")
BATCH_US = 10_000_000
_AXES = tuple(f"v{i}" for i in range(DIMENSIONS))
STREAMS = tuple(
    Stream(
        name,
        (Column("id", "bigint"), *(Column(axis, "double") for axis in _AXES), Column("ts", "timestamp")),
        "ts",
        1_000_000,
    )
    for name in NAMES
)
NEAR = 1.0


def video_query(window_s: int) -> Query:
    """J = S1[W] ⋈ S2[W] ⋈ S3[W], each picture near the next."""
    refs = ", ".join(f"{name} [RANGE {window_s} SECONDS]" for name in NAMES)
    near = (_near("a", "b"), _near("b", "c"))
    text = f"SELECT a.id AS a, b.id AS b, c.id AS c FROM {refs} WHERE {' AND '.join(near)}"
    return bind_query("q", text, {s.name: s for s in STREAMS})


def _near(left: str, right: str) -> str:
    ours, theirs = (", ".join(f"{name}.{axis}" for axis in _AXES) for name in (left, right))
    return f"l2_distance(array({ours}), array({theirs})) < {NEAR}"


@dataclass(frozen=True, slots=True)
class VideoStreams:
    """Batches of 10 seconds.

    Attributes
    ----------
    rate
        Rows per second of every stream.
    scenes
        How many different ones there are.
    """

    rate: int
    scenes: int
    seed: int = 7

    def batches(self, number: int) -> Iterator[dict[str, pa.Table]]:
        draw = np.random.default_rng(self.seed)
        scenes = draw.uniform(-1, 1, (self.scenes, DIMENSIONS))
        for batch in range(number):
            yield {name: self._rows(draw, scenes, batch) for name in NAMES}

    def _rows(self, draw: np.random.Generator, scenes: np.ndarray, batch: int) -> pa.Table:
        rows = self.rate * BATCH_US // 1_000_000
        times = (1 + batch) * BATCH_US + np.sort(draw.integers(0, BATCH_US, rows))
        draw.shuffle(order := np.arange(rows))  # out of order by up to half a second
        times = times[np.argsort(times + (order % 5) * 100_000, kind="stable")]
        shown = scenes[draw.integers(0, self.scenes, rows)]
        vectors = shown + draw.normal(0, 0.09, (rows, DIMENSIONS))
        columns = {"id": pa.array(batch * rows + np.arange(rows))}
        columns |= {axis: pa.array(vectors[:, i]) for i, axis in enumerate(_AXES)}
        return pa.table(columns | {"ts": pa.array(times).cast(pa.timestamp("us"))})
