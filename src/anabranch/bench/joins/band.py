"""A band join of two streams beside DuckDB, and a distance join: batch loop and state, without Spark.

DuckDB gets the new rows of each batch and the rows of the window as tables in memory, and the band in the
form that it joins fastest: one value between two others. It has one thread, as a slot has one core.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from statistics import median

import numpy as np
import pyarrow as pa

from anabranch.bench.joins.duckdb_join import DuckDBJoin
from anabranch.engine.local_driver import LocalRun
from anabranch.language.flow import bind_query
from anabranch.operators.join.distance import Vectors, distance_match
from anabranch.operators.rows.order_keys import Doubles
from anabranch.plan.logical import Column, Stream

BATCH_US = 1_000_000
MATCHES = 2.0
"""Rows of the other stream's window that a row meets, on average."""
_COLUMNS = (Column("id", "bigint"), Column("x", "double"), Column("ts", "timestamp"))
_STREAMS = {name: Stream(name, _COLUMNS, "ts") for name in ("a", "b")}
_UTC = pa.timestamp("us", tz="UTC")


@dataclass(frozen=True, slots=True)
class BandBench:
    """Batches of one band join, after those that fill the window."""

    rows: int
    """Per stream and batch."""
    window_batches: int
    batches: int
    results: int
    seconds: float
    """Median of a batch: reading new rows, joining, writing the state, handing results over."""
    duckdb_seconds: float

    @property
    def rows_per_second(self) -> float:
        return 2 * self.rows / self.seconds

    @property
    def ratio(self) -> float:
        """How many times as fast as DuckDB."""
        return self.duckdb_seconds / self.seconds


def run_band(scratch: Path, *, rows: int = 100_000, window_batches: int = 5, batches: int = 6) -> BandBench:
    """Join batch after batch with both; raises if their numbers of results differ."""
    width, window_us = band_width(rows, window_batches), window_batches * BATCH_US
    text = band_query(rows, window_batches)
    run = LocalRun(scratch, list(_STREAMS.values()), [bind_query("q", text, _STREAMS)])
    near = f"b.x BETWEEN a.x - {width!r} AND a.x + {width!r}"
    peer = DuckDBJoin({"id": "BIGINT", "x": "DOUBLE"}, near, window_us)
    ours, theirs, before = [], [], 0
    try:
        for number, tables in enumerate(band_batches(rows, window_batches + batches)):
            started = time.perf_counter()
            run.batch(tables)
            ours.append(time.perf_counter() - started)
            theirs.append(peer.batch(tables))
            found = run.results("q").num_rows
            if found != peer.results:
                raise AssertionError(f"{found:,} results, DuckDB {peer.results:,}, after batch {number}")
            before = found if number < window_batches else before
    finally:
        run.close()
    steady = slice(window_batches, None)
    return BandBench(
        rows, window_batches, batches, found - before, median(ours[steady]), median(theirs[steady])
    )


@dataclass(frozen=True, slots=True)
class DistanceBench:
    """A distance join of two sets of vectors, by CPU time: products of matrices may take several threads."""

    dimensions: int
    pairs: int
    results: int
    seconds: float

    @property
    def pairs_per_second(self) -> float:
        return self.pairs / self.seconds


def run_distance(*, rows: int = 20_000, dimensions: int = 40, rounds: int = 5) -> DistanceBench:
    """Vectors in a cube, with a distance that about one pair in a hundred thousand keeps."""
    rng = np.random.default_rng(11)
    ours, theirs = (_vectors(rng.random((rows, dimensions))) for _ in range(2))
    most = float(np.quantile(_some_distances(ours.values, theirs.values), 1e-5))
    times = []
    for _ in range(rounds):
        started = time.process_time()
        found = sum(len(left) for left, _ in distance_match(ours, theirs, most))
        times.append(time.process_time() - started)
    return DistanceBench(dimensions, rows * rows, found, min(times))


def _some_distances(left: Doubles, right: Doubles) -> Doubles:
    """Of the first thousand on either side."""
    squares = [((row - right[:1000]) ** 2).sum(axis=1) for row in left[:1000]]
    found: Doubles = np.sqrt(np.concatenate(squares))
    return found


def _vectors(values: Doubles) -> Vectors:
    times = np.zeros(len(values), dtype=np.int64)
    return Vectors(values, np.arange(len(values), dtype=np.int32), times, times)


def band_width(rows: int, window_batches: int) -> float:
    """The band in which a row has `MATCHES`."""
    return MATCHES / (2 * rows * window_batches)


def band_query(rows: int, window_batches: int) -> str:
    """The join, of so many rows per stream and batch."""
    window = f"[RANGE {window_batches * BATCH_US} MICROSECONDS]"
    near = f"abs(a.x - b.x) <= {band_width(rows, window_batches)!r}"
    return f"SELECT a.id AS a, b.id AS b FROM a {window}, b {window} WHERE {near}"


def band_batches(rows: int, number: int) -> Iterator[dict[str, pa.Table]]:
    """Batches of both streams, with values between 0 and 1."""
    rng = np.random.default_rng(7)
    for batch in range(number):
        times = np.sort(rng.integers(0, BATCH_US, rows)) + batch * BATCH_US
        yield {
            name: pa.table(
                {
                    "id": np.arange(rows) + batch * rows,
                    "x": rng.random(rows),
                    "ts": pa.array(times).cast(_UTC),
                }
            )
            for name in _STREAMS
        }
