"""The console sink: the first rows of every batch on standard output."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from anabranch.engine.sinks.sink import ResultBatch


class ConsoleSink:
    """The first rows of every batch on standard output."""

    only_rows = True

    def __init__(self, rows: int = 20) -> None:
        self._rows = rows

    def open(self, query: str, schema: pa.Schema) -> None:
        """Nothing to prepare."""

    def publish(self, results: ResultBatch) -> None:
        if not results.files:
            return
        total = sum(pq.read_metadata(os.fspath(file)).num_rows for file in results.files)
        print(f"-- {results.query}, batch {results.batch}: {total:,} rows")
        for row in self._first(results.files):
            print("  " + "  ".join(f"{name}={value}" for name, value in row.items()))
        if total > self._rows:
            print(f"  … and {total - self._rows:,} more")

    def _first(self, files: Sequence[os.PathLike[str]]) -> list[dict[str, Any]]:
        """The first rows, without reading all of them."""
        found: list[dict[str, Any]] = []
        for file in files:
            with pq.ParquetFile(os.fspath(file)) as reader:
                if len(found) < self._rows and reader.metadata.num_rows:
                    some = next(reader.iter_batches(batch_size=self._rows))
                    found += some.slice(0, self._rows - len(found)).to_pylist()
        return found


def console(rows: int = 20) -> ConsoleSink:
    """A sink that prints the first rows of every batch."""
    return ConsoleSink(rows)
