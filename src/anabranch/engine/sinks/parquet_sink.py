"""The parquet sink: a directory of files, each result exactly once."""

from __future__ import annotations

import filecmp
import io
import os
import re
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from anabranch.engine.sinks.local_path import local_path
from anabranch.engine.sinks.sink import ResultBatch
from anabranch.engine.sinks.staged_file import StagedFile
from anabranch.errors import SinkError
from anabranch.state.paths import file_stem
from anabranch.state.storage.local_files import make_folder, sync_folder, write_whole


class ParquetSink:
    """A directory of parquet files, each result exactly once."""

    only_rows = True

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = local_path(path, what="parquet sink")
        self._compared: set[str] = set()
        """Queries whose files were compared with the checkpoint since the start."""

    def open(self, query: str, schema: pa.Schema) -> None:
        """Make the directory readable from the start: an empty file carries the schema."""
        try:
            make_folder(self.path.absolute())
            empty = self.path / f"{file_stem(query)}-schema.parquet"
            if not empty.exists():
                content = pa.BufferOutputStream()
                pq.write_table(schema.empty_table(), content)
                write_whole(io.BytesIO(content.getvalue()), empty)
        except OSError as error:
            raise SinkError(f"cannot write to sink {self.path}: {error.strerror}") from error

    def publish(self, results: ResultBatch) -> None:
        prefix = f"{file_stem(results.query)}-{results.batch:010d}-{results.step:04d}"
        names = [f"{prefix}-{number:03d}.parquet" for number in range(len(results.files))]
        if results.query not in self._compared:
            self._refuse_later_results(results, names)
            self._compared.add(results.query)
        for staged, name in zip(results.files, names, strict=True):
            self._place(staged, self.path / name)

    def _refuse_later_results(self, results: ResultBatch, names: list[str]) -> None:
        """Nothing of this step or a later one can be there, unless the checkpoint is older than the sink."""
        pattern = re.compile(rf"{re.escape(file_stem(results.query))}-(\d{{10}})-(\d{{4,}})-\d{{3}}\.parquet")
        present = (pattern.fullmatch(file.name) for file in self.path.iterdir())
        steps = ((int(found[1]), int(found[2]), found[0]) for found in present if found)
        at = (results.batch, results.step)
        later = (step for step in steps if step[:2] >= at and step[2] not in names)
        if (first := min(later, default=None)) is not None:
            raise self._foreign(self.path / first[2])

    def _place(self, staged: StagedFile, target: Path) -> None:
        if not target.exists():
            staged.export(target)
            return
        if not target.samefile(staged) and not filecmp.cmp(target, staged, shallow=False):
            raise self._foreign(target)
        sync_folder(self.path)  # its writer may have died between naming it and syncing the name

    def _foreign(self, file: Path) -> SinkError:
        return SinkError(
            f"{file} holds results that this checkpoint does not know: it was written from another one, or "
            "the checkpoint was restored from an older copy. Give the query a directory of its own, or "
            "remove this file and the later ones; their rows will be computed again"
        )


def parquet(path: str | os.PathLike[str]) -> ParquetSink:
    """A sink that writes parquet files, each result exactly once."""
    return ParquetSink(path)
