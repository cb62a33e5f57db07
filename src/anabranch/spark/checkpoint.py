"""Spark's own checkpoint beside ours: where it stands, and whether the two belong together."""

from __future__ import annotations

import json
from pathlib import Path

import xxhash

from anabranch.errors import StateError
from anabranch.state import Manifest
from anabranch.state.storage.local_files import sync_folder

SPARK_CHECKPOINT = "spark"
"""Folder of the checkpoint that Spark keeps its offsets in."""


def check_spark_checkpoint(checkpoint: Path, manifest: Manifest | None) -> None:
    """Refuse a checkpoint of which one half was deleted or restored without the other.

    The batch loop would notice at the next batch; without new data there is none, and nobody would know.
    """
    folder = checkpoint / SPARK_CHECKPOINT
    committed = max((int(f.name) for f in folder.glob("commits/*") if f.name.isdecimal()), default=-1)
    if manifest is None:
        if committed >= 0:
            raise StateError(
                f"{folder} has finished batch {committed}, but the state beside it is gone: rows that it has "
                "read would be missing. Restore the whole checkpoint, or start with a new one"
            )
        return
    if not (folder / "metadata").exists():
        raise StateError(
            f"the checkpoint's state is at batch {manifest.batch}, but Spark's own checkpoint {folder} was "
            "deleted. Going on would repeat rows: restore that folder, or start with a new checkpoint"
        )
    if _source_id(folder) != manifest.source_id:
        raise StateError(
            f"the state is at batch {manifest.batch}, but Spark's own checkpoint {folder} was replaced by "
            "that of another run. Restore both from the same moment, or start with a new checkpoint"
        )
    if manifest.batch not in (committed - 1, committed, committed + 1):
        raise StateError(
            f"Spark has finished batch {committed}, but the state is at batch {manifest.batch}: one of the "
            "two was restored without the other. Restore both, or start with a new checkpoint"
        )


def rewind_spark(checkpoint: Path, manifest: Manifest | None) -> None:
    """Let Spark repeat a batch that it took for done while it ran beside it, if it was not committed.

    Of the batch after that one, which Spark may have begun to plan, the offsets go first: a process that dies
    in between leaves what Spark leaves when it dies.
    """
    folder = checkpoint / SPARK_CHECKPOINT
    if manifest is None or not (folder / "commits" / str(manifest.batch + 1)).exists():
        return
    for log, batch in (("offsets", manifest.batch + 2), ("commits", manifest.batch + 1)):
        for name in (f".{batch}.crc", f"{batch}"):
            (folder / log / name).unlink(missing_ok=True)
        sync_folder(folder / log)


def spark_position(checkpoint: Path, batch: int) -> tuple[str, str]:
    """Digest of the offsets of a batch, and the identity of Spark's checkpoint."""
    folder = checkpoint / SPARK_CHECKPOINT
    try:
        offsets = (folder / "offsets" / str(batch)).read_text().split("\n")
    except (OSError, ValueError) as error:
        raise _unreadable(folder, error) from error
    # Line 0 is the format's version, line 1 holds the time and confs of the batch.
    return xxhash.xxh3_64_hexdigest("\n".join(offsets[2:]).encode()), _source_id(folder)


def _source_id(folder: Path) -> str:
    try:
        return str(json.loads((folder / "metadata").read_text())["id"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise _unreadable(folder, error) from error


def _unreadable(folder: Path, error: Exception) -> StateError:
    return StateError(
        f"Spark's own checkpoint {folder} cannot be read: {error}. Restore the whole checkpoint from a copy, "
        "or start with a new one"
    )
