"""Streams in which one key has half of the rows, and the joins of two and of three of them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import pyarrow as pa

from anabranch.language.flow import bind_query
from anabranch.plan.logical import Column, Query, Stream

BATCH_US = 1_000_000
WINDOW_BATCHES = 4
NEAR = 0.01
"""How far apart in x rows may be that meet."""
STREAMS = tuple(
    Stream(
        name,
        (Column("id", "bigint"), Column("k", "bigint"), Column("x", "double"), Column("ts", "timestamp")),
        "ts",
    )
    for name in "abc"
)


def hot_key_text(references: int) -> str:
    """An equi-join on k of the first streams, of rows that are near each other in x, too."""
    names = "abc"[:references]
    refs = ", ".join(f"{name} [RANGE {WINDOW_BATCHES} SECONDS]" for name in names)
    pairs = list(pairwise(names))
    same = [f"{x}.k = {y}.k" for x, y in pairs]
    few = [f"abs({x}.x - {y}.x) <= {NEAR}" for x, y in pairs]
    columns = ", ".join(f"{name}.id AS {name}" for name in names)
    return f"SELECT {columns} FROM {refs} WHERE {' AND '.join([*same, *few])}"


def hot_key_query(references: int) -> Query:
    """The same, bound."""
    return bind_query("q", hot_key_text(references), {s.name: s for s in STREAMS})


GROUPS = {
    "each row": (
        "SELECT k, COUNT(*) AS n, SUM(id) AS total, MAX(x) AS most, MIN(x) AS least "
        "FROM a [RANGE 8 SECONDS] GROUP BY k"
    ),
    "windows": (
        "SELECT k, window.end AS until, COUNT(*) AS n, SUM(id) AS total, MAX(x) AS most, MIN(x) AS least, "
        "MAX(id) AS last, max_by(id, x) AS who FROM a GROUP BY k, window(ts, '5 seconds')"
    ),
}
"""Aggregates by k: one result per row, and one per group and window."""


def hot_group_query(kind: str) -> Query:
    """An aggregate by k of the first stream."""
    return bind_query("q", GROUPS[kind], {s.name: s for s in STREAMS})


@dataclass(frozen=True, slots=True)
class HotKeyStreams:
    """Batches of one second.

    Attributes
    ----------
    rows
        Per stream and batch.
    hot
        Share of rows that have the one key.
    keys
        How many others there are; if None, twenty times as many as rows.
    """

    rows: int
    references: int
    hot: float = 0.5
    seed: int = 7
    keys: int | None = None

    def batches(self, number: int) -> Iterator[dict[str, pa.Table]]:
        draw = np.random.default_rng(self.seed)
        for batch in range(number):
            yield {name: self._rows(draw, batch) for name in "abc"[: self.references]}

    def _rows(self, draw: np.random.Generator, batch: int) -> pa.Table:
        others = draw.integers(2, 2 + self.keys if self.keys else 20 * self.rows, self.rows)
        keys = np.where(draw.random(self.rows) < self.hot, 1, others)
        times = (1 + batch) * BATCH_US + np.sort(draw.integers(0, BATCH_US, self.rows))
        columns = {"id": pa.array(batch * self.rows + np.arange(self.rows)), "k": pa.array(keys)}
        columns["x"] = pa.array(draw.random(self.rows))
        return pa.table(columns | {"ts": pa.array(times).cast(pa.timestamp("us"))})
