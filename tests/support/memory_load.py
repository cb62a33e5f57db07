"""Loads that would not fit into memory, one per process, so that its memory can be measured.

    python -m tests.support.memory_load hot_keys --rows 2500 --work-memory-mb 64

prints how far private memory grew over that of a first small batch, in MiB, and what became of the queries.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from anabranch.engine.local_driver import LocalRun
from anabranch.engine.settings import Settings
from anabranch.engine.sinks.parquet_sink import ParquetSink
from anabranch.language.flow import bind_query
from anabranch.plan.logical import Column, Stream

START_US = 1_700_000_000_000_000
COLUMNS = (Column("id", "bigint"), Column("k", "bigint"), Column("s", "string"), Column("ts", "timestamp"))
STREAMS = tuple(Stream(name, COLUMNS, "ts") for name in "abc")
HOT, COLD = 7, 1
TEXT_BYTES = 400
_W = "[RANGE 10 SECONDS]"
_TWO, _THREE = f"FROM a {_W}, b {_W}", f"FROM a {_W}, b {_W}, c {_W}"
SMALL = f"SELECT a.id AS a, c.id AS c FROM a {_W}, c {_W} WHERE a.k = c.k AND a.id = c.id"
"""A query beside the large one, which must go on whatever becomes of that."""


@dataclass(frozen=True, slots=True)
class Load:
    """A query, and the batches that make it large: so many rows of one key on two sides make rows² pairs."""

    query: str
    run: Callable[[LocalRun, int], None]
    ordering: str = "plan"
    """`eddy` is a join at stations of two sites, between which rows travel."""
    routing: str = "aligned"
    """`coordinated` is one along paths over two sites; rows that travel are kept by no state."""


def _at_once(run: LocalRun, rows: int) -> None:
    run.batch({"a": _rows(rows, HOT, 1), "b": _rows(rows, HOT, 1), "c": _rows(3, COLD, 1)})
    run.batch({name: _rows(1, COLD, 2) for name in "abc"})


def _then_final(run: LocalRun, rows: int) -> None:
    _at_once(run, rows)
    run.batch({name: _rows(1, COLD, 20_000_000) for name in "abc"})
    run.batch({name: _rows(1, COLD, 40_000_000) for name in "abc"})


def _then_migrated(run: LocalRun, rows: int) -> None:
    """The plan from the start joins (a b) first, which hardly meet; the other one (b c), which all meet."""
    run.batch({"a": _rows(3, COLD, 1), "b": _rows(rows, HOT, 1), "c": _rows(rows, HOT, 1)})
    run.batch({name: _rows(1, COLD, 2) for name in "abc"})
    run.loop.migrate("large", "((b c) a)", force=True)
    for step in range(3, 6):
        run.batch({name: _rows(1, COLD, step) for name in "abc"})


_IDS = "SELECT a.id AS a, b.id AS b"
LOADS: Mapping[str, Load] = {
    "fan_out": Load(f"{_IDS} {_TWO} WHERE a.k = b.k AND a.id + b.id = 5", _at_once),
    "text": Load(f"SELECT a.s AS a, b.s AS b {_TWO} WHERE a.k = b.k", _at_once),
    "cross_product": Load(f"{_IDS} {_TWO} WHERE a.id + b.id <> 1", _at_once),
    "hot_keys": Load(f"{_IDS}, c.id AS c {_THREE} WHERE a.k = b.k AND b.k = c.k", _at_once),
    "crossed_state": Load(f"{_IDS} {_THREE} WHERE c.id < 0 AND a.id < c.id + b.id", _at_once),
    "grouped": Load(f"SELECT a.k, COUNT(*) AS n {_TWO} WHERE a.k = b.k GROUP BY a.k", _then_final),
    "stations": Load(f"{_IDS}, c.id AS c {_THREE} WHERE a.k = b.k AND b.id = c.id", _at_once, "eddy"),
    "paths": Load(
        f"{_IDS}, c.id AS c {_THREE} WHERE abs(a.k - b.k) <= 0 AND abs(a.id - c.id) <= 0",
        _at_once,
        routing="coordinated",
    ),
    "migrated": Load(f"{_IDS}, c.id AS c {_THREE} WHERE a.k = b.k AND b.k = c.k", _then_migrated),
}


def measured(load: str, *, rows: int, work_memory_mb: int, timeout_s: float = 900.0) -> dict[str, Any]:
    """Run a load in a process of its own."""
    options = ["--rows", str(rows), "--work-memory-mb", str(work_memory_mb)]
    command = [sys.executable, "-m", "tests.support.memory_load", load, *options]
    done = subprocess.run(command, capture_output=True, text=True, timeout=timeout_s, check=False)
    if done.returncode:
        raise AssertionError(f"{' '.join(command)} ended with {done.returncode}: {done.stderr[-2_000:]}")
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def run_load(load: Load, root: Path, *, rows: int, work_memory_mb: int) -> dict[str, Any]:
    known = {s.name: s for s in STREAMS}
    queries = [bind_query(name, text, known) for name, text in (("large", load.query), ("small", SMALL))]
    sinks = {query.name: ParquetSink(root / query.name) for query in queries}
    sites = 2 if load.ordering == "eddy" or load.routing == "coordinated" else 1
    settings = Settings(
        sites=sites,
        slots=sites,
        ordering=load.ordering,
        routing=load.routing,
        migration="off",
        rebalance="off",
        quota_pairs=1 << 40,
        work_memory_mb=work_memory_mb,
    )
    run = LocalRun(root / "checkpoint", STREAMS, queries, sinks=sinks, settings=settings)
    run.batch({name: _rows(3, COLD, 0) for name in "abc"})  # kernels are compiled, libraries loaded
    with watched_memory() as grown:
        load.run(run, rows)
    tracks, failures = run.loop.tracks.plans.get("large", ("",)), run.loop.failures
    run.close()
    results = {q.name: sum(pq.read_metadata(f).num_rows for f in (root / q.name).iterdir()) for q in queries}
    return {"grown_mb": grown(), "plan": tracks[0], "failures": failures, "results": results}


@contextmanager
def watched_memory() -> Iterator[Callable[[], int]]:
    """Look at this process's private memory all the time; tells by how many MiB it has grown at most."""
    before = peak = _private_bytes()
    done = threading.Event()

    def look() -> None:
        nonlocal peak
        while not done.wait(0.002):
            peak = max(peak, _private_bytes())

    watcher = threading.Thread(target=look, daemon=True)
    watcher.start()
    try:
        yield lambda: (peak - before) >> 20
    finally:
        done.set()
        watcher.join()


def _private_bytes() -> int:
    """Memory that is in no file: what is mapped from files the kernel can take back at any time."""
    resident, shared = map(int, Path("/proc/self/statm").read_text(encoding="ascii").split()[1:3])
    return (resident - shared) * 4096


def _rows(rows: int, key: int, after_us: int) -> pa.Table:
    text = pa.array(["x" * TEXT_BYTES], pa.large_string())
    return pa.table(
        {
            "id": np.arange(rows),
            "k": np.full(rows, key),
            "s": text.take(pa.array(np.zeros(rows, dtype=np.int32))),
            "ts": pa.array(np.full(rows, START_US + after_us)).cast(pa.timestamp("us")),
        }
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("load", choices=sorted(LOADS))
    parser.add_argument("--rows", type=int, default=2_500)
    parser.add_argument("--work-memory-mb", type=int, default=64)
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="anabranch-") as folder:
        found = run_load(
            LOADS[asked.load], Path(folder), rows=asked.rows, work_memory_mb=asked.work_memory_mb
        )
    print(json.dumps(found))


if __name__ == "__main__":
    main()
