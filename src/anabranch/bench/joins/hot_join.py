"""A whole join with a million keys, one of them hot: batch loop, state and results, without Spark.

All streams bring the same rows, in different orders. Each row meets itself in the others and nothing else, so
that there are as many results with a hot key as without.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa

from anabranch.engine.local_driver import LocalRun
from anabranch.language.flow import bind_query
from anabranch.plan.logical import Column, Stream

KEYS = 1_000_000
HOT_SHARES = (0.0, 0.05, 0.5)
SPACING_US = 1000
_COLUMNS = (Column("k", "bigint"), Column("v", "bigint"), Column("ts", "timestamp"))


@dataclass(frozen=True, slots=True)
class HotJoin:
    """CPU time of all batches with one hot share."""

    streams: int
    hot: float
    rows: int
    results: int
    seconds: float


def run_hot_joins(scratch: Path, *, rows: int = 250_000, batches: int = 2) -> Iterator[HotJoin]:
    """Join two and three streams, without a hot key first."""
    _run(scratch / "compiled", 3, 0.5, rows=1000, batches=1)
    for streams in (2, 3):
        for hot in HOT_SHARES:
            yield _run(scratch / f"{streams}-{hot}", streams, hot, rows=rows, batches=batches)


def _run(root: Path, count: int, hot: float, *, rows: int, batches: int) -> HotJoin:
    names = [f"s{i}" for i in range(count)]
    streams = {name: Stream(name, _COLUMNS, "ts") for name in names}
    sources = ", ".join(f"{name} [NOW]" for name in names)
    where = " AND ".join(f"s0.k = {name}.k" for name in names[1:])
    query = bind_query("q", f"SELECT s0.v FROM {sources} WHERE {where}", streams)
    run = LocalRun(root, list(streams.values()), [query])
    try:
        spent = 0.0
        for batch in range(batches):
            tables = {name: _rows(i, batch, hot, rows=rows) for i, name in enumerate(names)}
            started = time.process_time()
            run.batch(tables)
            spent += time.process_time() - started
        return HotJoin(count, hot, rows * batches * count, run.results("q").num_rows, spent)
    finally:
        run.close()


def _rows(stream: int, batch: int, hot: float, *, rows: int) -> pa.Table:
    rng = np.random.default_rng(batch)
    keys = np.where(rng.random(rows) < hot, 0, rng.integers(1, KEYS, rows))
    times = (np.arange(rows) + batch * rows) * SPACING_US
    order = np.random.default_rng(100 + stream).permutation(rows)
    arrived = pa.array(times[order]).cast(pa.timestamp("us", tz="UTC"))
    return pa.table({"k": keys[order], "v": times[order], "ts": arrived})
