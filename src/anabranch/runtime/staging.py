"""Staged files: results and dead letters, durable before the batch commits, published after."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import xxhash

from anabranch.operators.arrow_types import arrow_type
from anabranch.plan.logical import Query
from anabranch.runtime.connected_sink import compression_of
from anabranch.state.errors import CorruptionError
from anabranch.state.layout import STAGED, file_stem
from anabranch.state.manifest import Manifest, ResultFile
from anabranch.state.storage import link_if_absent, make_folder, sync_folder

if TYPE_CHECKING:
    from anabranch.runtime.slot_task import SlotTask

DEAD_LETTERS = "dead_letters"
"""Folder of the checkpoint that keeps refused rows, and their query in records of files."""
PIECE_ROWS = 1 << 20
"""Results that wait to be written together."""
MOST_BYTES = 1 << 30
"""Of a column in one piece: the offsets of text in files have 32 bits."""
_DEAD_LETTERS = pa.schema(
    {
        "stream": pa.string(),
        "reason": pa.string(),
        "batch": pa.int64(),
        "event_time_us": pa.int64(),
        "row": pa.string(),
    }
)


class ResultWriter:
    """The result file of one query and slot; nothing is created while there are no rows."""

    def __init__(self, task: SlotTask, query: Query, slot: int, unique: str) -> None:
        self._query = query
        self._schema = output_schema(query)
        name = f"{file_stem(query.name)}-b{task.batch:010d}-s{slot:03d}-{unique}.parquet"
        self._path = task.checkpoint / STAGED / name
        self._file: _HashedFile | None = None
        self._writer: pq.ParquetWriter | None = None
        self._pending: list[pa.Table] = []
        self.rows = 0
        self.seconds = 0.0
        """CPU time of writing: whoever brings the row that fills a piece writes that of others, too."""

    def write(self, results: pa.Table) -> None:
        self.rows += results.num_rows
        self._pending += _pieces(results, self._schema)
        if sum(t.num_rows for t in self._pending) >= PIECE_ROWS:
            self._flush()

    def close(self) -> Iterator[ResultFile]:
        """Make the file durable and describe it."""
        self._flush()
        if self._writer is None or self._file is None:
            return
        started = time.thread_time()
        self._writer.close()
        self._file.seal()
        self.seconds += time.thread_time() - started
        yield ResultFile(
            self._query.name, self._path.name, self.rows, self._file.size, self._file.checksum.hexdigest()
        )

    def _flush(self) -> None:
        if not self._pending:
            return
        started = time.thread_time()
        if self._writer is None:
            self._file = _HashedFile(self._path)
            # Dictionaries, and heavy compression that nobody asked for, cost more than the probing that
            # made the rows.
            compression = compression_of(self._query.sink)
            self._writer = pq.ParquetWriter(
                self._file, self._schema, compression=compression, use_dictionary=False
            )
        self._writer.write_table(pa.concat_tables(self._pending), row_group_size=PIECE_ROWS)
        self._pending = []
        self.seconds += time.thread_time() - started


def _pieces(rows: pa.Table, schema: pa.Schema) -> list[pa.Table]:
    """The rows as files hold them, cut in halves until the text of each piece has room."""
    if rows.num_rows > 1 and max(column.nbytes for column in rows.columns) > MOST_BYTES:
        half = rows.num_rows // 2
        return _pieces(rows.slice(0, half), schema) + _pieces(rows.slice(half), schema)
    return [rows.cast(schema)]


def write_dead_letters(checkpoint: Path, rows: pa.Table, *, name: str) -> ResultFile:
    file = _HashedFile(checkpoint / STAGED / name)
    pq.write_table(pa.concat_tables(_pieces(rows, _DEAD_LETTERS)), file)
    file.seal()
    return ResultFile(DEAD_LETTERS, name, rows.num_rows, file.size, file.checksum.hexdigest())


def keep_dead_letters(checkpoint: Path, manifest: Manifest) -> None:
    """Link a committed step's dead letters into the folder where they stay, readable as one table.

    Their names are those of the step, so that a step that is repeated replaces its own.
    """
    folder = checkpoint / DEAD_LETTERS
    if manifest.dead_letters:
        make_folder(folder)
    for number, file in enumerate(manifest.dead_letters):
        staged = checkpoint / STAGED / file.name
        target = folder / f"dead-b{manifest.batch:010d}-{manifest.step:04d}-{number:03d}.parquet"
        if target.exists() and not target.samefile(staged):
            target.unlink()
        link_if_absent(staged, target)


def verify_staged(checkpoint: Path, manifest: Manifest) -> None:
    """Check byte for byte what a committed step is about to publish.

    Raises
    ------
    CorruptionError
        A file is missing or is not what was written.
    """
    for file in (*manifest.results, *manifest.dead_letters):
        path = checkpoint / STAGED / file.name
        try:
            data = path.read_bytes()
        except FileNotFoundError as error:
            raise _damaged(path, f"{file.bytes} bytes", "no file") from error
        if len(data) != file.bytes:
            raise _damaged(path, f"{file.bytes} bytes", f"{len(data)} bytes")
        checksum = xxhash.xxh3_64_hexdigest(data)
        if checksum != file.checksum:
            raise _damaged(path, f"checksum {file.checksum}", f"checksum {checksum}")


def _damaged(path: Path, expected: str, found: str) -> CorruptionError:
    advice = (
        "These results are committed but were not published: restore the checkpoint directory from a "
        "copy, or start again with an empty checkpoint and an empty sink"
    )
    return CorruptionError(str(path), expected=expected, found=found, advice=advice)


def output_schema(query: Query) -> pa.Schema:
    """Arrow schema of result files: times as instants in UTC, text with 32-bit offsets as readers expect."""
    return pa.schema([(o.name, _file_type(o.type)) for o in query.outputs])


def _file_type(spark_type: str) -> pa.DataType:
    match spark_type:
        case "timestamp":
            return pa.timestamp("us", tz="UTC")
        case "string":
            return pa.string()
        case "binary":
            return pa.binary()
    kind = arrow_type(spark_type)
    if kind is None:
        raise TypeError(f"results of type {spark_type} cannot be written; select its parts instead")
    return kind


class _HashedFile:
    """A file that is hashed as it is written, so that nothing is read back."""

    def __init__(self, path: Path) -> None:
        make_folder(path.parent)
        self._path = path
        self._file = path.open("xb")
        self.checksum = xxhash.xxh3_64()
        self.size = 0
        self.closed = False

    def write(self, data: Any) -> int:
        view = memoryview(data)
        self.checksum.update(view)
        self.size += view.nbytes
        self._file.write(view)
        return view.nbytes

    def tell(self) -> int:
        return self.size

    def flush(self) -> None:
        self._file.flush()

    def close(self) -> None:
        """Left to `seal`: Arrow closes what it has finished writing."""

    def seal(self) -> None:
        self._file.flush()
        os.fsync(self._file.fileno())
        self._file.close()
        sync_folder(self._path.parent)
        self.closed = True
