"""Blocks: immutable Arrow files of state rows, and what a manifest knows of each."""

from __future__ import annotations

import secrets
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import xxhash

from anabranch.errors import StateError
from anabranch.plan.states.state_id import StateId
from anabranch.state.errors import CorruptionError
from anabranch.state.paths import BLOCKS, check_name, slug
from anabranch.state.stamp import Stamp
from anabranch.state.storage import Storage

_ADVICE = (
    "The state cannot be trusted: restore the checkpoint directory from a copy, or start again "
    "with an empty checkpoint and replay the sources"
)


@dataclass(frozen=True, slots=True)
class BlockMeta:
    """What a manifest remembers of one block.

    Attributes
    ----------
    name
        File name relative to the blocks folder.
    state
        Id of the state the rows belong to.
    batch, last_batch
        First and last batch the rows came from; they differ after compaction.
    slot
        Slot that wrote the block.
    checksum
        Hexadecimal xxh3_64 of the file.
    min_ts, max_ts
        Range of event times, in microseconds.
    max_deadline
        Largest deadline of a row: `min over i of (ts_i + W_i)` for intermediate rows, whose
        streams are fixed; `max_ts` for leaf rows, whose window depends on the reader.
    partitions
        (partition, rows) in ascending order, without the empty ones.
    """

    name: str
    state: StateId
    batch: int
    last_batch: int
    slot: int
    rows: int
    bytes: int
    checksum: str
    min_ts: int
    max_ts: int
    max_deadline: int
    partitions: tuple[tuple[int, int], ...] = ()


def unique_part(attempt: int | str) -> str:
    """Return a file-name part that no other run of the same task will use.

    A task re-run after a lost shuffle has the same stage and attempt number: hence the random part.
    """
    return f"{slug(str(attempt))}-{secrets.token_hex(6)}"


def write_block(
    storage: Storage,
    table: pa.Table | pa.RecordBatch,
    *,
    state: StateId,
    stamp: Stamp,
    batch: int,
    slot: int,
    unique: str,
    min_ts: int,
    max_ts: int,
    max_deadline: int | None = None,
    last_batch: int | None = None,
    partitions: Iterable[tuple[int, int]] = (),
    folder: str = "",
) -> BlockMeta:
    """Write rows, already sorted, as one durable block.

    Parameters
    ----------
    stamp
        Who writes it, and in which step; `batch` is that of its oldest rows.
    unique
        See `unique_part`.
    max_deadline
        Needed for intermediate rows; leaf rows leave it out.
    partitions
        (partition, rows) pairs; empty ones are left out.
    folder
        Folder of the blocks, for sites that share nothing.
    """
    data = _serialise(_single_batch(table))
    file = f"{stamp}-s{slot:03d}-{slug(state)}-{unique}.arrow"
    name = check_name(f"{folder}/{file}" if folder else file)
    storage.put_new(f"{BLOCKS}/{name}", data)
    return BlockMeta(
        name=name,
        state=state,
        batch=batch,
        last_batch=batch if last_batch is None else last_batch,
        slot=slot,
        rows=table.num_rows,
        bytes=data.nbytes,
        checksum=xxhash.xxh3_64_hexdigest(data),
        min_ts=int(min_ts),
        max_ts=int(max_ts),
        max_deadline=int(max_ts if max_deadline is None else max_deadline),
        partitions=tuple(sorted((int(p), int(rows)) for p, rows in partitions if rows)),
    )


def map_block(
    storage: Storage, meta: BlockMeta, *, checked: bool = False, sparing: bool = False
) -> pa.RecordBatch:
    """Memory-map a block after checking it byte for byte.

    The checksum comes before Arrow sees the file: Arrow's format has none, and most flipped
    bits would read back as other values.

    Parameters
    ----------
    checked
        It was checked before: only its size is compared.
    sparing
        Check it without touching the map, whose pages would all be in memory then.
    """
    path = _locate(storage, meta)
    data = _map_checked(path, meta, checked=checked, sparing=sparing)
    try:
        with pa.ipc.open_file(data) as reader:
            batches = reader.num_record_batches
            block: pa.RecordBatch = reader.get_batch(0)
    except (pa.ArrowInvalid, IndexError) as error:
        raise _corrupt(path, "an Arrow file", str(error)) from error
    if batches != 1 or block.num_rows != meta.rows:
        found = f"{block.num_rows} rows in the first of {batches} batches"
        raise _corrupt(path, f"{meta.rows} rows in one batch", found)
    return block


def _locate(storage: Storage, meta: BlockMeta) -> Path:
    name = f"{BLOCKS}/{check_name(meta.name)}"
    try:
        path = storage.fetch(name, size=meta.bytes, checksum=meta.checksum)
    except FileNotFoundError as error:
        raise _corrupt(name, f"{meta.bytes} bytes", "no file") from error
    return path


def _map_checked(path: Path, meta: BlockMeta, *, checked: bool, sparing: bool) -> pa.Buffer:
    try:
        size = path.stat().st_size
    except FileNotFoundError as error:
        raise _corrupt(path, f"{meta.bytes} bytes", "no file") from error
    if size != meta.bytes:
        raise _corrupt(path, f"{meta.bytes} bytes", f"{size} bytes")
    data = pa.memory_map(str(path), "r").read_buffer()
    if checked:
        return data
    checksum = checksum_of(path) if sparing else xxhash.xxh3_64_hexdigest(data)
    if checksum != meta.checksum or data.size != meta.bytes:
        raise _corrupt(path, f"checksum {meta.checksum}", f"checksum {checksum}")
    return data


def checksum_of(path: Path) -> str:
    """Checksum of a file, of which little is in memory at a time."""
    checksum, piece = xxhash.xxh3_64(), memoryview(bytearray(1 << 20))
    with path.open("rb", buffering=0) as file:
        while size := file.readinto(piece):
            checksum.update(piece[:size])
    return checksum.hexdigest()


def _corrupt(path: Path | str, expected: str, found: str) -> CorruptionError:
    return CorruptionError(str(path), expected=expected, found=found, advice=_ADVICE)


def _single_batch(table: pa.Table | pa.RecordBatch) -> pa.RecordBatch:
    if isinstance(table, pa.RecordBatch):
        return table
    batches = table.unify_dictionaries().combine_chunks().to_batches()
    if len(batches) > 1:
        raise StateError(f"a block of {table.num_rows} rows is too big for one record batch")
    return batches[0] if batches else pa.RecordBatch.from_pylist([], schema=table.schema)


def _serialise(batch: pa.RecordBatch) -> memoryview:
    # Counting first costs microseconds; a growing buffer copies everything several times.
    counter = pa.MockOutputStream()
    _write_file(counter, batch)
    data = pa.allocate_buffer(counter.size())
    _write_file(pa.FixedSizeBufferWriter(data), batch)
    return memoryview(data)


def _write_file(sink: pa.NativeFile, batch: pa.RecordBatch) -> None:
    with pa.ipc.new_file(sink, batch.schema) as writer:
        writer.write_batch(batch)
