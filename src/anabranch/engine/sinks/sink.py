"""Sinks: where the results of a committed batch go.

A sink is called after a step has committed, with files that stay until it returns. After a crash, or when it
has raised, it may be called again for the same step; the parquet sink recognises what it has, functions are
told a number that no other step has. Steps come in order, also to a sink that has failed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import pyarrow as pa

from anabranch.engine.sinks.staged_file import StagedFile


@dataclass(frozen=True, slots=True)
class ResultBatch:
    """The results of one query in one committed step.

    Attributes
    ----------
    batch, step
        Spark's batch, and the further step of it: steps bring results without new rows.
    number
        How many steps were committed before: ascending, and another for every step.
    files
        Parquet files, to be read like paths (`os.fspath`).
    """

    query: str
    batch: int
    step: int
    number: int
    schema: pa.Schema
    files: tuple[StagedFile, ...]


class Sink(Protocol):
    """Where the results of a query go; any object with these two methods will do.

    It is told of every step, also of one without results; with an attribute `only_rows = True`, after the
    first step of a session, only of steps that have some.

    Examples
    --------
    >>> class Count:
    ...     rows = 0
    ...
    ...     def open(self, query, schema): ...
    ...
    ...     def publish(self, results):
    ...         self.rows += sum(pq.read_metadata(file).num_rows for file in results.files)
    """

    def open(self, query: str, schema: pa.Schema) -> None:
        """Called once before the first batch of a session."""

    def publish(self, results: ResultBatch) -> None:
        """Take the results of a committed step; after a crash, or if it raises, it is called again for it."""
