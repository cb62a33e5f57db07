"""The memory sink: results kept in the driver, for tests and notebooks."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.parquet as pq

from anabranch.engine.sinks.sink import ResultBatch
from anabranch.errors import SinkError


class MemorySink:
    """Results kept in the driver, for tests and notebooks."""

    only_rows = True

    def __init__(self) -> None:
        self._schema: pa.Schema | None = None
        self._batches: dict[tuple[int, int], pa.Table] = {}

    def open(self, query: str, schema: pa.Schema) -> None:
        self._schema = schema

    def publish(self, results: ResultBatch) -> None:
        tables = [pq.read_table(f, schema=results.schema) for f in results.files]
        if tables:
            self._batches[results.batch, results.step] = pa.concat_tables(tables)

    def table(self) -> pa.Table:
        if self._schema is None:
            raise SinkError("nothing has run into this sink yet: start the session first")
        return pa.concat_tables([self._schema.empty_table(), *self._batches.values()])


def memory() -> MemorySink:
    """A sink that keeps results in the driver: `sink.table()`."""
    return MemorySink()
