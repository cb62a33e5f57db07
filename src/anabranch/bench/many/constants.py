"""What a batch with very many queries costs before a row is touched: planning, what is sent, the manifest."""

from __future__ import annotations

import pickle
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
from rich.table import Table

from anabranch.engine.local_driver import LocalRun
from anabranch.engine.settings import Settings
from anabranch.engine.task.worker.constants import compiled_constants
from anabranch.language.flow import bind_query
from anabranch.plan.logical import Column, Query, Stream
from anabranch.spark.slot_stages import packed, unpacked
from anabranch.state.manifest_codec import encode
from anabranch.workloads.stream_files import START_US

TURNS = 9
COLUMNS = (
    Column("id", "bigint"),
    Column("k", "bigint"),
    Column("v", "bigint"),
    Column("ts", "timestamp"),
)
STREAMS = {name: Stream(name, COLUMNS, "ts", 1_000_000) for name in "ab"}
MOST_PLAN_MS, MOST_SENT_BYTES, MOST_MANIFEST_BYTES = 30.0, 100_000, 300_000
"""What a thousand two-way joins may take."""


@dataclass(frozen=True, slots=True)
class ConstantsBench:
    """Joins of two streams with filters of their own. Times are CPU times, medians."""

    queries: int
    rows: int
    blocks: int
    plan_ms: float
    """To plan a batch."""
    pickle_ms: float
    """What Spark does with the function of a batch before it sends it."""
    sent_bytes: int
    """To every slot."""
    unpickle_ms: float
    """At a slot that has seen an earlier batch."""
    manifest_bytes: int
    constants_bytes: int
    """Sent once."""
    catalog_bytes: int
    """Written once."""

    @property
    def ratio(self) -> float:
        """Bytes sent with every batch, of those sent once."""
        return self.sent_bytes / self.constants_bytes

    def too_much(self) -> list[str]:
        """Which of the bounds for a thousand queries do not hold."""
        bounds = (
            ("planning, ms", self.plan_ms, MOST_PLAN_MS),
            ("sent to a slot, bytes", self.sent_bytes, MOST_SENT_BYTES),
            ("manifest, bytes", self.manifest_bytes, MOST_MANIFEST_BYTES),
        )
        return [
            f"{what}: {found:,.0f} instead of {most:,.0f}" for what, found, most in bounds if found > most
        ]


def run_constants(
    scratch: Path, *, queries: int = 1000, rows: int = 2000, batches: int = 2, sites: int = 8
) -> ConstantsBench:
    """Run some batches without Spark, and look at what the next one would be told."""
    run = LocalRun(
        scratch, tuple(STREAMS.values()), _queries(queries), settings=Settings(sites=sites, slots=2)
    )
    for number in range(batches):
        summary = run.batch(_rows(number, rows, queries))
    manifest = summary.manifest
    plan_ms = _median_ms(lambda: run.next_task())
    task = run.next_task()
    sent = packed(task)
    pickle_ms = _median_ms(lambda: packed(task))
    unpickle_ms = _median_ms(lambda: unpacked(sent))
    constants = compiled_constants(task.storage, task.constants).constants
    run.close()
    assert manifest.catalog_log is not None
    return ConstantsBench(
        queries,
        rows,
        len(manifest.blocks),
        plan_ms,
        pickle_ms,
        len(sent),
        unpickle_ms,
        len(encode(manifest)),
        len(pickle.dumps(constants)),
        len(run.storage.read(manifest.catalog_log.whole.name)),
    )


def constants_table(result: ConstantsBench) -> Table:
    """The measures and their bounds."""
    table = Table(
        title=f"{result.queries:,} joins with filters of their own, {result.blocks:,} blocks of state",
        title_justify="left",
    )
    table.add_column("every batch")
    table.add_column("measured", justify="right")
    table.add_column("at most", justify="right")
    table.add_row("planning, CPU", f"{result.plan_ms:,.1f} ms", f"{MOST_PLAN_MS:,.0f} ms")
    table.add_row("pickled, CPU", f"{result.pickle_ms:,.1f} ms", "")
    table.add_row("sent to a slot", f"{result.sent_bytes:,} bytes", f"{MOST_SENT_BYTES:,}")
    table.add_row("unpickled at a slot, CPU", f"{result.unpickle_ms:,.1f} ms", "")
    table.add_row("manifest", f"{result.manifest_bytes:,} bytes", f"{MOST_MANIFEST_BYTES:,}")
    table.add_section()
    table.add_row("once: constants for the workers", f"{result.constants_bytes:,} bytes", "")
    table.add_row("once: catalog", f"{result.catalog_bytes:,} bytes", "")
    return table


def _queries(count: int) -> list[Query]:
    return [
        bind_query(
            f"q{i}",
            f"SELECT a.id AS a, b.id AS b FROM a [RANGE 10 SECONDS], b [RANGE 10 SECONDS] "
            f"WHERE a.k = b.k AND a.v = {i} AND b.v = {i}",
            STREAMS,
        )
        for i in range(count)
    ]


def _rows(batch: int, rows: int, values: int) -> dict[str, pa.Table]:
    rng = np.random.default_rng(batch)
    times = START_US + batch * 1_000_000 + rng.integers(0, 1_000_000, rows)
    return {
        name: pa.table(
            {
                "id": np.arange(rows) + batch * rows,
                "k": rng.integers(0, rows // 10 + 1, rows),
                "v": rng.integers(0, values, rows),
                "ts": pa.array(times, pa.timestamp("us", tz="UTC")),
            }
        )
        for name in STREAMS
    }


def _median_ms(work: Callable[[], object]) -> float:
    taken = []
    for _ in range(TURNS):
        began = time.process_time()
        work()
        taken.append((time.process_time() - began) * 1000)
    return statistics.median(taken)
