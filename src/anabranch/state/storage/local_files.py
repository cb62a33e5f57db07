"""Files of this machine that survive a power failure: written, named and synced in the right order."""

from __future__ import annotations

import errno
import os
import shutil
from pathlib import Path
from typing import BinaryIO

from anabranch.errors import StateError


def write_synced(path: Path, data: bytes | memoryview) -> None:
    """Create `path` with `data` and sync its content; the folder is the caller's to sync.

    A file that could not be written completely is removed.
    """
    with path.open("xb", buffering=0) as file:
        try:
            rest = memoryview(data)
            while rest:
                rest = rest[file.write(rest) :]
            os.fsync(file.fileno())
        except OSError:
            path.unlink(missing_ok=True)
            raise


def write_whole(source: BinaryIO, target: Path) -> None:
    """Write a durable file that is seen whole or not at all; readers skip names that start with _."""
    copy = target.with_name(f"_{target.name}.tmp")
    with copy.open("wb") as file:
        shutil.copyfileobj(source, file, 1 << 20)
        file.flush()
        os.fsync(file.fileno())
    copy.rename(target)
    sync_folder(target.parent)


def link_if_absent(source: Path, target: Path) -> bool:
    """Give a synced file a second name, durably; False if that name is taken, then durable too."""
    try:
        os.link(source, target)
    except FileExistsError:
        sync_folder(target.parent)
        return False
    except OSError as error:
        if error.errno in (errno.EPERM, errno.ENOTSUP, errno.EXDEV, errno.EMLINK):
            raise StateError(
                f"cannot link {source} to {target}: {error.strerror}. "
                "Both must lie on one file system that has hard links"
            ) from error
        raise
    sync_folder(target.parent)
    return True


def make_folder(folder: Path) -> None:
    """Create a folder and its parents so that they survive a power failure."""
    if folder.is_dir():
        return
    make_folder(folder.parent)
    folder.mkdir(exist_ok=True)
    sync_folder(folder.parent)


def sync_folder(folder: Path) -> None:
    """Make the names in a folder durable."""
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
