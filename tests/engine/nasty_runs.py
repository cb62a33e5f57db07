"""Sessions without a JVM that say what they do in a few lines: two streams of key, value and time."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

import pyarrow as pa

from anabranch.engine.local_driver import LocalRun
from anabranch.engine.settings import Settings
from anabranch.language.flow import bind_query
from anabranch.plan.logical import Column, Query, Stream
from anabranch.testing.stream_model import scratch
from tests.support.generated import Batch, Case, Phase
from tests.support.oracle_check import check_case

START = 1_700_000_000_000_000
COLUMNS = (Column("id", "int"), Column("k", "bigint"), Column("v", "int"), Column("ts", "timestamp"))
Row = tuple[int | None, int]
"""Key and time after the start, in microseconds."""


def stream(name: str, lateness_us: int = 0) -> Stream:
    return Stream(name, COLUMNS, "ts", lateness_us)


def rows(*given: Row, first: int = 0) -> pa.Table:
    """Rows with the given keys and times; ids count from `first`, values repeat from 0 to 4."""
    size = len(given)
    return pa.table(
        {
            "id": pa.array(range(first, first + size), pa.int32()),
            "k": pa.array([k for k, _ in given], pa.int64()),
            "v": pa.array([i % 5 for i in range(size)], pa.int32()),
            "ts": pa.array([START + t for _, t in given], pa.int64()).cast(pa.timestamp("us")),
        }
    )


def bind(streams: Sequence[Stream], **texts: str) -> tuple[Query, ...]:
    known = {s.name: s for s in streams}
    return tuple(bind_query(name, text, known) for name, text in texts.items())


def check(
    streams: Sequence[Stream],
    queries: Sequence[Query],
    *batches: Mapping[str, pa.Table],
    sites: int = 2,
    restart_at: int | None = None,
    max_blocks: int = 1,
) -> None:
    """Run batches, with a restart before one of them if asked, and compare with the oracle."""
    settings = Settings(sites=sites, slots=2, max_blocks=max_blocks)
    full: list[Batch] = [{s.name: batch.get(s.name, rows()) for s in streams} for batch in batches]
    cut = len(full) if restart_at is None else restart_at
    parts = [part for part in (full[:cut], full[cut:]) if part]
    check_case(Case(tuple(streams), tuple(Phase(tuple(queries), settings, tuple(p)) for p in parts)))


@contextmanager
def running(
    streams: Sequence[Stream], queries: Sequence[Query], settings: Settings | None = None
) -> Iterator[LocalRun]:
    """A run whose every step the test takes itself."""
    with scratch() as root:
        run = LocalRun(root, streams, queries, settings=settings or Settings(sites=2, slots=2))
        try:
            yield run
        finally:
            run.close()
