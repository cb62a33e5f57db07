"""Paths of checkpoints and exactly-once sinks: directories that this machine has or mounts."""

from __future__ import annotations

import os
import re
from pathlib import Path

from anabranch.errors import ConfigError

# One slash is enough: Hadoop writes file:/x, and pathlib makes s3:/x of s3://x. Two letters at least
# before it, so that a drive is none.
_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+):(?=/)")


def local_path(path: str | os.PathLike[str], *, what: str) -> Path:
    """The directory that a path or a `file:` URL names.

    Links, renames and syncs that survive a crash need a file system, so that other URLs are refused.

    >>> str(local_path("out/a", what="sink")), str(local_path("file:///mnt/out", what="sink"))
    ('out/a', '/mnt/out')
    """
    text = os.fspath(path)
    scheme = _SCHEME.match(text)
    if scheme is None:
        return Path(text)
    rest = text[scheme.end() :]
    host, slash, below = rest[2:].partition("/") if rest.startswith("//") else ("", "/", rest[1:])
    if scheme[1].lower() != "file" or host not in ("", "localhost"):
        raise ConfigError(
            f"{what} {text!r} is not in a file system of this machine: give a local or mounted directory, "
            "such as '/mnt/results'"
        )
    return Path(slash + below)
