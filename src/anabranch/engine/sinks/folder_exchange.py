"""Two folders change places in one step: who lists either sees all of one or all of the other."""

from __future__ import annotations

import ctypes
import os
import shutil
from functools import cache
from pathlib import Path

from anabranch.errors import ConfigError

_HERE = -100
"""`AT_FDCWD`: relative paths start in the working directory."""
_EXCHANGE = 2
"""`RENAME_EXCHANGE`, of Linux."""


def exchange_folders(one: Path, other: Path) -> None:
    """Give each of two folders on one file system the place of the other, atomically."""
    libc = _libc()
    if libc is None:
        raise OSError("this C library has no renameat2")
    paths = os.fsencode(one), os.fsencode(other)
    if libc.renameat2(_HERE, paths[0], _HERE, paths[1], _EXCHANGE):
        error = ctypes.get_errno()
        raise OSError(error, os.strerror(error), os.fspath(one))


def check_exchange(folder: Path) -> None:
    """Refuse a folder that could not change places with another one beside it."""
    probes = [folder.with_name(f".{folder.name}.probe{n}") for n in range(2)]
    try:
        if folder.is_mount():
            raise OSError("it is a mount point")
        for probe in probes:
            probe.mkdir(exist_ok=True)
        exchange_folders(*probes)
    except OSError as error:
        raise ConfigError(
            f"compactEvery: {folder} cannot be exchanged in one step ({error.strerror or error}): give a "
            "folder below a directory of a local disk (ext4, xfs, btrfs), or leave compactEvery out"
        ) from error
    finally:
        for probe in probes:
            shutil.rmtree(probe, ignore_errors=True)


@cache
def _libc() -> ctypes.CDLL | None:
    libc = ctypes.CDLL(None, use_errno=True)
    return libc if hasattr(libc, "renameat2") else None
