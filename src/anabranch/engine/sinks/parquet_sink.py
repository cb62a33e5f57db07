"""The parquet sink: a directory of files, each result exactly once."""

from __future__ import annotations

import filecmp
import glob
import io
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from anabranch.engine.sinks.folder_exchange import check_exchange
from anabranch.engine.sinks.local_path import local_path
from anabranch.engine.sinks.result_merge import compression_in, merge_results, remove_folder
from anabranch.engine.sinks.result_names import ResultName, Step, results_in
from anabranch.engine.sinks.result_partitions import check_columns, split
from anabranch.engine.sinks.sink import ResultBatch
from anabranch.engine.sinks.staged_file import StagedFile
from anabranch.errors import ConfigError, ForeignResultsError, SinkError
from anabranch.plan.logical import Connector
from anabranch.state.paths import file_stem
from anabranch.state.storage.local_files import make_folder, sync_folder, write_whole


class ParquetSink:
    """A directory of parquet files, each result exactly once.

    Parameters
    ----------
    partition_by
        Columns whose values become folders.
    compact_every
        After so many steps their files become one; 0 is never. `result_merge` says how.
    """

    only_rows = True

    def __init__(
        self, path: str | os.PathLike[str], *, partition_by: Sequence[str] = (), compact_every: int = 0
    ) -> None:
        self.path = local_path(path, what="parquet sink")
        if compact_every < 0 or compact_every == 1:
            raise ConfigError(f"compactEvery = {compact_every}: give 2 or more batches, or 0 for never")
        self._columns = tuple(partition_by)
        self._every = compact_every
        self._compared: set[str] = set()
        """Queries whose files were compared with the checkpoint since the start."""

    @property
    def key(self) -> tuple[str, str]:
        """The same for sinks that write to one directory."""
        return "parquet", str(self._home)

    @property
    def options(self) -> tuple[tuple[str, str], ...]:
        """How INTO would say what it was given beside its path."""
        columns = (("partitionBy", ", ".join(self._columns)),) if self._columns else ()
        return (*columns, *((("compactEvery", str(self._every)),) if self._every else ()))

    def open(self, query: str, schema: pa.Schema) -> None:
        """Make the directory readable from the start: an empty file carries the schema."""
        check_columns(query, self._columns, schema)
        try:
            make_folder(self.path.absolute())
            if self._every:
                check_exchange(self._home)
                self._remove_old()
            empty = self.path / f"{file_stem(query)}-schema.parquet"
            # Beside folders of partitions, Spark takes a file for a mistake.
            if not self._columns and not empty.exists():
                content = pa.BufferOutputStream()
                pq.write_table(schema.empty_table(), content)
                write_whole(io.BytesIO(content.getvalue()), empty)
        except OSError as error:
            raise SinkError(f"cannot write to sink {self.path}: {error.strerror}") from error

    def publish(self, results: ResultBatch) -> None:
        at = (results.batch, results.step)
        if results.query not in self._compared:
            self._refuse_later_results(results)
            self._compared.add(results.query)
        folders: set[Path] = set()
        for number, (staged, group) in enumerate(self._pieces(results)):
            name = ResultName(at, at, number).file(results.query)
            if group is None:
                folders.add(self._home)
                self._place(staged, self.path / name)
            else:
                folders |= set(self._place_parts(staged, group, name))
        if self._every:
            self._merge(sorted(folders), results.query, before=at)

    def _merge(self, folders: Sequence[Path], query: str, *, before: Step) -> None:
        self._remove_old()
        for number, folder in enumerate(folders):
            merge_results(folder, query, beside=self._beside(number), before=before, every=self._every)

    def _remove_old(self) -> None:
        """Remove folders that others have taken the place of, or that a process was making when it died."""
        for folder in self._home.parent.glob(f"{glob.escape(self._beside(0).stem)}.*"):
            remove_folder(folder)

    def _pieces(self, results: ResultBatch) -> Iterator[tuple[StagedFile, int | None]]:
        """Files to be placed as they are, or row groups of them to be split."""
        for staged in results.files:
            groups = pq.read_metadata(os.fspath(staged)).num_row_groups if self._columns else 0
            yield from ((staged, group) for group in (range(groups) if self._columns else (None,)))

    @property
    def _home(self) -> Path:
        return self.path.absolute().resolve()

    def _beside(self, number: int) -> Path:
        """Where a folder is made that will take the place of another: where no reader looks."""
        return self._home.with_name(f".{self._home.name}.merging.{number}")

    def _refuse_later_results(self, results: ResultBatch) -> None:
        """Nothing of this step or a later one can be there, unless the checkpoint is older than the sink."""
        at = (results.batch, results.step)
        pieces = sum(1 for _ in self._pieces(results))
        names = {ResultName(at, at, number).file(results.query) for number in range(pieces)}
        folders = [Path(folder) for folder, _, _ in os.walk(self.path)] if self._columns else [self.path]
        found = (found for folder in folders for found in results_in(folder, results.query))
        later = (found for found in found if found[0].last >= at and found[1].name not in names)
        if (first := min(later, default=None)) is not None:
            raise self._foreign(first[1])

    def _place(self, staged: StagedFile, target: Path) -> None:
        if not target.exists():
            staged.export(target)
            return
        if not target.samefile(staged) and not filecmp.cmp(target, staged, shallow=False):
            raise self._foreign(target)
        sync_folder(self.path)  # its writer may have died between naming it and syncing the name

    def _place_parts(self, staged: StagedFile, group: int, name: str) -> Iterator[Path]:
        """Write the rows of each partition to its folder, and tell the folders."""
        with pq.ParquetFile(os.fspath(staged)) as file:
            compression, rows = compression_in(file), file.read_row_group(group)
        for part, mine in split(rows, self._columns):
            folder = self._home / part
            make_folder(folder)
            target = folder / name
            if target.exists():
                if not pq.read_table(target, partitioning=None).equals(mine):
                    raise self._foreign(target)
                sync_folder(folder)
            else:
                content = pa.BufferOutputStream()
                pq.write_table(mine, content, compression=compression)
                write_whole(io.BytesIO(content.getvalue()), target)
            yield folder

    def _foreign(self, file: Path) -> ForeignResultsError:
        return ForeignResultsError(
            f"{file} holds results that this checkpoint does not know: it was written from another one, or "
            "the checkpoint was restored from an older copy. Give the query a directory of its own, or "
            "remove this file and the later ones; their rows will be computed again"
        )


def parquet_options(connector: Connector) -> dict[str, Any]:
    """What INTO says beside the path, as `ParquetSink` takes it."""
    options = {name.lower(): value for name, value in connector.options}
    every = options.get("compactevery", "0")
    if not every.isdecimal():
        raise ConfigError(f"compactEvery = {every!r}: a whole number is needed")
    columns = [c.strip() for c in options.get("partitionby", "").split(",") if c.strip()]
    return {"partition_by": columns, "compact_every": int(every)}


def parquet(
    path: str | os.PathLike[str],
    *,
    partitionBy: str | Sequence[str] = (),  # noqa: N803 - Spark's word
    compactEvery: int = 0,  # noqa: N803
) -> ParquetSink:
    """A sink that writes parquet files, each result exactly once.

    Parameters
    ----------
    partitionBy
        A column, or several, whose values become folders, as in Spark.
    compactEvery
        Merge the files of so many batches into one; 0 is never.

    Examples
    --------
    >>> parquet("out/underpaid", partitionBy="customer", compactEvery=20).path.name
    'underpaid'
    """
    columns = (partitionBy,) if isinstance(partitionBy, str) else tuple(partitionBy)
    return ParquetSink(path, partition_by=columns, compact_every=compactEvery)
