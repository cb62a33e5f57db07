"""The result files of a slot: one for each sink that has rows, however many queries write to it."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Protocol

import pyarrow as pa

from anabranch.engine.task.results.split_writer import SplitWriter
from anabranch.engine.task.results.staging import ResultWriter
from anabranch.language.shared_columns import QUERY
from anabranch.plan.logical import Query

if TYPE_CHECKING:
    from anabranch.engine.reports import SlotReport
    from anabranch.engine.task.slot_task import SlotTask


class Writer(Protocol):
    """Takes the results of a query, or of a representative."""

    @property
    def query(self) -> Query: ...

    @property
    def rows(self) -> int:
        """Results so far."""

    @property
    def seconds(self) -> float:
        """CPU time of writing."""

    def write(self, results: pa.Table) -> None: ...


class ResultFiles:
    """Files and writers of a slot in one hop, made when they are first needed.

    Parameters
    ----------
    queries
        By name: what may be written.
    """

    def __init__(self, task: SlotTask, slot: int, unique: str, queries: Mapping[str, Query]) -> None:
        self._where = task, slot, unique
        self._queries = queries
        self._files: dict[str, ResultWriter] = {}
        """By owner."""
        self._writers: dict[str, Writer] = {}

    def __getitem__(self, name: str) -> Writer:
        """What takes the results of a query."""
        found = self._writers.get(name)
        if found is None:
            found = self._writers[name] = self._writer(self._queries[name])
        return found

    def _writer(self, query: Query) -> Writer:
        if query.split is not None:
            return SplitWriter(self._where[0], query, self.file_of)
        file = self.file_of(query)
        return file if query.place is None else NamedRows(query, file)

    def file_of(self, query: Query) -> ResultWriter:
        """The file that a query writes to, maybe with others."""
        file = self._files.get(query.owner)
        if file is None:
            file = self._files[query.owner] = ResultWriter(self._where[0], query, *self._where[1:])
        return file

    def seconds_of(self, name: str) -> float:
        """CPU time of writing the results of a query."""
        writer = self._writers.get(name)
        return 0.0 if writer is None else writer.seconds

    @property
    def seconds(self) -> float:
        """CPU time of writing, in all."""
        return sum(writer.seconds for writer in self._writers.values())

    def close(self, report: SlotReport) -> None:
        """Make the files durable, and report them, and who has how many of their rows."""
        for file in self._files.values():
            report.results.extend(file.close())
        for name, writer in self._writers.items():
            if isinstance(writer, SplitWriter):
                report.given[name] = writer.given()
                report.represented[name] = writer.rows, writer.seconds
                report.failures |= writer.failures
            elif writer.query.place is not None and writer.rows:
                report.given_alone[name] = writer.rows


class NamedRows:
    """Writes the results of one query to a file that it shares with others."""

    def __init__(self, query: Query, file: ResultWriter) -> None:
        self.query = query
        self.rows = 0
        self.seconds = 0.0
        self._file = file

    def write(self, results: pa.Table) -> None:
        started = time.thread_time()
        names = pa.repeat(pa.scalar(self.query.name, pa.string()), results.num_rows)
        self._file.write(results.add_column(0, QUERY, names))
        self.rows += results.num_rows
        self.seconds += time.thread_time() - started


def rows_shared(reports: Iterable[SlotReport]) -> Iterator[tuple[str, int]]:
    """Queries that have written to files with others, and how many rows."""
    for report in reports:
        for given in report.given.values():
            yield from given
        yield from report.given_alone.items()
