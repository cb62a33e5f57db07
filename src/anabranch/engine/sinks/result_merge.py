"""Merging result files: many small ones become few large ones, and no reader sees a row twice or not at all.

    out/     q-…07-000 q-…08-000 q-…09-000          .out.merging/   q-…07-to-…08-merged1  q-…09-000 (a link)
       └───────────── change places in one step (renameat2, RENAME_EXCHANGE) ─────────────┘

A whole folder is made anew beside the old one, out of links to what stays and files merged from the rest.
Then both change places. A crash before leaves the old folder, a crash after it the new one; what is left over
is deleted before the next merge, or at the next start. Only steps before the one that is being published are
merged: it is the only one that may come again after a crash, and must find its files under their own names.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Sequence
from itertools import groupby
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from anabranch.engine.sinks import folder_exchange
from anabranch.engine.sinks.result_names import ResultName, Step, results_in
from anabranch.state.storage.local_files import make_folder, sync_folder

LARGE_BYTES = 128 << 20
"""A file of this size is not merged any further."""
_PIECE_ROWS = 1 << 16


def merge_results(folder: Path, query: str, *, beside: Path, before: Step, every: int) -> bool:
    """Merge files of a folder, if it is time to; tells whether it has.

    Parameters
    ----------
    beside
        Where the new folder is made, and where the old one is afterwards. It stays for a while: whoever is
        just listing it would otherwise see only some of its files.
    before
        Only steps before this one.
    every
        How many steps, or files that were merged as often, become one file.
    """
    due = files_due(results_in(folder, query), before=before, every=every)
    if not due:
        return False
    try:
        _make_new(folder, beside, query, due)
    except (OSError, pa.ArrowException) as error:
        # Results are complete as they are: a full disk must not end the session here.
        logging.getLogger("anabranch").warning("results in %s were not merged: %s", folder, error)
        remove_folder(beside)
        return False
    folder_exchange.exchange_folders(beside, folder)
    sync_folder(folder.parent)
    sync_folder(beside.parent)
    return True


def remove_folder(folder: Path) -> None:
    """Remove a folder of files, if it is there."""
    if folder.is_dir():
        for file in folder.iterdir():
            file.unlink(missing_ok=True)
        folder.rmdir()


def files_due(
    found: Sequence[tuple[ResultName, Path]], *, before: Step, every: int
) -> list[tuple[ResultName, Path]]:
    """The files that become one: those merged least often of which there are enough."""
    small = [(name, file) for name, file in found if name.last < before]
    small = [(name, file) for name, file in small if not name.level or file.stat().st_size < LARGE_BYTES]
    for _, level in groupby(sorted(small, key=lambda f: f[0].level), key=lambda f: f[0].level):
        files = sorted(level)
        if len({name.first for name, _ in files}) >= every:
            return files
    return []


def _make_new(folder: Path, beside: Path, query: str, due: Sequence[tuple[ResultName, Path]]) -> None:
    remove_folder(beside)
    make_folder(beside)
    merged = {file.name for _, file in due}
    for file in folder.iterdir():
        if file.name not in merged:
            os.link(file, beside / file.name)
    names = [name for name, _ in due]
    name = ResultName(names[0].first, max(n.last for n in names), 0, names[0].level + 1)
    _write_merged([file for _, file in due], beside / name.file(query))
    sync_folder(beside)


def _write_merged(files: Sequence[Path], target: Path) -> None:
    """Write the rows of all files to one, piece by piece, and read back how many there are."""
    with pq.ParquetFile(files[0]) as first:
        schema, compression = first.schema_arrow, compression_in(first)
    rows = 0
    with target.open("xb") as file:
        with pq.ParquetWriter(file, schema, compression=compression) as writer:
            for source in files:
                with pq.ParquetFile(source) as reader:
                    rows += reader.metadata.num_rows
                    for piece in reader.iter_batches(_PIECE_ROWS):
                        writer.write_batch(piece)
        file.flush()
        os.fsync(file.fileno())
    if pq.read_metadata(target).num_rows != rows:
        raise OSError(f"{target} has lost rows")


def compression_in(file: pq.ParquetFile) -> str:
    """How a file is compressed, in the words of the writer."""
    groups = file.metadata
    if not groups.num_row_groups or not groups.num_columns:
        return "snappy"
    found = str(groups.row_group(0).column(0).compression).lower()
    return "none" if found == "uncompressed" else found
