"""Which rows of a stream are accepted, and what a query gives over them: read off the definitions.

The late rule is here a second time, row by row, so that the engine is not its own judge.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

import duckdb
import pyarrow as pa

from anabranch.engine.event_time import MAX_TIME_US
from anabranch.language.oracle.oracle_sql import oracle_sql
from anabranch.plan.logical import Query, Stream

FAST = Path("/dev/shm")  # noqa: S108 - scratch space of tests; there, a sync to disk costs nothing


@dataclass(slots=True)
class StreamModel:
    """The late rule, read off its definition: one stream, one row after the other."""

    stream: Stream
    max_ts: int | None = None
    watermark: int | None = None
    accepted: list[pa.Table] = field(default_factory=list)
    """Per batch."""
    usable: list[pa.Table] = field(default_factory=list)
    """Per batch: late rows, too, which queries without state still get."""
    rejected: int = 0
    late: int = 0

    def take(self, rows: pa.Table) -> None:
        """Take the rows of one batch."""
        keep, possible = [], []
        newest = self.max_ts
        for time in rows.column(self.stream.time).cast(pa.int64()).to_pylist():
            usable = time is not None and 0 <= time < MAX_TIME_US
            self.rejected += not usable
            in_time = usable and (self.watermark is None or time >= self.watermark)
            keep.append(in_time)
            possible.append(usable)
            self.late += usable and not in_time
            if in_time:
                newest = time if newest is None else max(newest, time)
        self.accepted.append(rows.filter(pa.array(keep, pa.bool_())))
        self.usable.append(rows.filter(pa.array(possible, pa.bool_())))
        self.max_ts = newest
        if newest is not None:
            mark = newest - self.stream.lateness_us
            self.watermark = mark if self.watermark is None else max(self.watermark, mark)

    def rows_for(self, query: Query, first: int = 0, last: int | None = None) -> pa.Table:
        """What a query gets in some batches: a single row that needs no other is never too late."""
        alone = len(query.refs) == 1 and query.grouping is None
        return pa.concat_tables((self.usable if alone else self.accepted)[first:last])


def accepted_rows(
    streams: Sequence[Stream], batches: Sequence[Mapping[str, pa.Table]]
) -> dict[str, StreamModel]:
    """What the late rule leaves of every stream."""
    models = {s.name: StreamModel(s) for s in streams}
    for batch in batches:
        for name, model in models.items():
            model.take(batch[name])
    return models


def expected_rows(query: Query, streams: Sequence[Stream], tables: Mapping[str, pa.Table]) -> pa.Table:
    """The query as one batch SELECT over the given rows."""
    connection = _connection()
    for name, table in tables.items():
        connection.register(name, table)
    return connection.sql(oracle_sql(query, {s.name: s for s in streams})).to_arrow_table()


@contextmanager
def scratch() -> Iterator[Path]:
    """A directory, in memory where there is such a place."""
    root = Path(tempfile.mkdtemp(prefix="anabranch-", dir=FAST if FAST.is_dir() else None))
    try:
        yield root
    finally:
        shutil.rmtree(root, ignore_errors=True)


@cache
def _connection() -> duckdb.DuckDBPyConnection:
    return duckdb.connect(":memory:", config={"threads": 1})
