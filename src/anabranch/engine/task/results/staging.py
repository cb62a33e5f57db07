"""Staged files: results and dead letters, durable before the batch commits, published after."""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable, Iterator
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import xxhash

from anabranch.engine.sinks.compression import compression_of
from anabranch.language.shared_columns import QUERY
from anabranch.operators.rows.arrow_types import arrow_type
from anabranch.plan.logical import Query
from anabranch.state.block import checksum_of
from anabranch.state.errors import CorruptionError
from anabranch.state.manifest import Manifest, ResultFile
from anabranch.state.paths import DEAD_LETTERS, STAGED, file_stem
from anabranch.state.storage import Storage

if TYPE_CHECKING:
    from anabranch.engine.task.slot_task import SlotTask

PIECE_ROWS = 1 << 20
PIECE_BYTES = 64 << 20
"""Results that wait to be written together: whichever is reached first."""
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
    """The result file of one sink and slot; nothing is created while there are no rows."""

    def __init__(self, task: SlotTask, query: Query, slot: int, unique: str) -> None:
        self.query = query
        self._schema = output_schema(query)
        self._repeated: bool | list[str] = False if query.place is None else [QUERY]
        """Columns with few values."""
        self._storage = task.storage
        self._name = f"{task.stamp}-s{slot:03d}-{file_stem(query.owner)}-{unique}.parquet"
        self._file: _HashedFile | None = None
        self._writer: pq.ParquetWriter | None = None
        self._pending: list[pa.Table] = []
        self._pending_rows = self._pending_bytes = 0
        self.rows = 0
        self.seconds = 0.0
        """CPU time of writing: whoever brings the row that fills a piece writes that of others, too."""

    def write(self, results: pa.Table) -> None:
        self.rows += results.num_rows
        self._pending += _pieces(results, self._schema)
        self._pending_rows += results.num_rows
        self._pending_bytes += results.nbytes
        if self._pending_rows >= PIECE_ROWS or self._pending_bytes >= PIECE_BYTES:
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
            self.query.owner, self._name, self.rows, self._file.size, self._file.checksum.hexdigest()
        )

    def _flush(self) -> None:
        if not self._pending:
            return
        started = time.thread_time()
        if self._writer is None:
            self._file = _HashedFile(self._storage, self._name)
            # Dictionaries, and heavy compression that nobody asked for, cost more than the probing that
            # made the rows.
            compression = compression_of(self.query.sink)
            self._writer = pq.ParquetWriter(
                self._file, self._schema, compression=compression, use_dictionary=self._repeated
            )
        self._writer.write_table(pa.concat_tables(self._pending), row_group_size=PIECE_ROWS)
        self._pending, self._pending_rows, self._pending_bytes = [], 0, 0
        self.seconds += time.thread_time() - started


def _pieces(rows: pa.Table, schema: pa.Schema) -> list[pa.Table]:
    """The rows as files hold them, cut in halves until the text of each piece has room."""
    if rows.num_rows > 1 and max(column.nbytes for column in rows.columns) > MOST_BYTES:
        half = rows.num_rows // 2
        return _pieces(rows.slice(0, half), schema) + _pieces(rows.slice(half), schema)
    return [rows.cast(schema)]


def without_queries(storage: Storage, file: ResultFile, gone: Collection[str]) -> ResultFile:
    """A file that queries share, written anew without the rows of some; the old one becomes garbage."""
    path = storage.fetch(f"{STAGED}/{file.name}", size=file.bytes, checksum=file.checksum)
    with pq.ParquetFile(path) as reader:
        rows = reader.read()
    kept = rows.filter(pc.invert(pc.is_in(rows.column(QUERY), pa.array(sorted(gone), pa.string()))))
    name = f"{file.name.removesuffix('.parquet')}-kept.parquet"
    target = _HashedFile(storage, name)
    pq.write_table(kept, target, use_dictionary=[QUERY])
    target.seal()
    return ResultFile(file.query, name, kept.num_rows, target.size, target.checksum.hexdigest())


def write_dead_letters(storage: Storage, rows: pa.Table, *, name: str) -> ResultFile:
    file = _HashedFile(storage, name)
    pq.write_table(pa.concat_tables(_pieces(rows, _DEAD_LETTERS)), file)
    file.seal()
    return ResultFile(DEAD_LETTERS, name, rows.num_rows, file.size, file.checksum.hexdigest())


def keep_dead_letters(storage: Storage, manifest: Manifest) -> None:
    """Link a committed step's dead letters into the folder where they stay, readable as one table.

    Their names are those of the step, so that a step that is repeated replaces its own.
    """
    for number, file in enumerate(manifest.dead_letters):
        staged = f"{STAGED}/{file.name}"
        target = f"{DEAD_LETTERS}/dead-b{manifest.batch:010d}-{manifest.step:04d}-{number:03d}.parquet"
        if not storage.link(staged, target) and storage.read(target) != storage.read(staged):
            storage.delete(target)
            storage.link(staged, target)


def verify_files(storage: Storage, folder: str, files: Iterable[ResultFile]) -> None:
    """Check byte for byte what a committed step is about to publish.

    Raises
    ------
    CorruptionError
        A file is missing or is not what was written.
    """
    for file in files:
        name = f"{folder}/{file.name}"
        try:
            path = storage.fetch(name, size=file.bytes, checksum=file.checksum)
            size, checksum = path.stat().st_size, checksum_of(path)
        except FileNotFoundError as error:
            raise _damaged(name, f"{file.bytes} bytes", "no file") from error
        if size != file.bytes:
            raise _damaged(name, f"{file.bytes} bytes", f"{size} bytes")
        if checksum != file.checksum:
            raise _damaged(name, f"checksum {file.checksum}", f"checksum {checksum}")


def _damaged(file: str, expected: str, found: str) -> CorruptionError:
    advice = (
        "These results are committed but were not published: restore the checkpoint directory from a "
        "copy, or start again with an empty checkpoint and an empty sink"
    )
    return CorruptionError(file, expected=expected, found=found, advice=advice)


def output_schema(query: Query) -> pa.Schema:
    """Arrow schema of result files: times as instants in UTC, text with 32-bit offsets as readers expect."""
    shared = [] if query.place is None else [(QUERY, pa.string())]
    return pa.schema([*shared, *((o.name, _file_type(o.type)) for o in query.outputs)])


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

    def __init__(self, storage: Storage, name: str) -> None:
        self._upload = storage.upload(f"{STAGED}/{name}")
        self.checksum = xxhash.xxh3_64()
        self.size = 0
        self.closed = False

    def write(self, data: Any) -> int:
        view = memoryview(data)
        self.checksum.update(view)
        self.size += view.nbytes
        self._upload.write(view)
        return view.nbytes

    def tell(self) -> int:
        return self.size

    def flush(self) -> None:
        """Left to `seal`: nobody reads the file before."""

    def close(self) -> None:
        """Left to `seal`: Arrow closes what it has finished writing."""

    def seal(self) -> None:
        self._upload.seal()
        self.closed = True
