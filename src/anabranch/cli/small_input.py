"""A run that reads a few small files and ends: Spark need not be compiled as if it ran for days."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from anabranch.cli.flow_file import local_path
from anabranch.plan.logical import Connector, Flow

SMALL_BYTES, SMALL_FILES = 4 << 20, 50
"""What all sources of a flow have together at most: a few seconds of work."""
QUICK_COMPILER = "-XX:TieredStopAtLevel=1"
"""The JVM's first compiler alone. The second takes a third of the CPU time of a start, and pays it back
only to runs of minutes."""


def quick_options(flow: Flow) -> str:
    """Options of a JVM that will end when it has read what there is; none where that may be much."""
    streams = [stream.source for stream in flow.streams]
    sources = [*streams, *(table.source for table in flow.tables)]
    paths = [_path(source) for source in sources]
    if any(path is None for path in paths):
        return ""
    files, size = 0, 0
    for found in (file for path in paths if path is not None for file in _sizes(path)):
        files, size = files + 1, size + found
        if files > SMALL_FILES or size > SMALL_BYTES:
            return ""
    return QUICK_COMPILER


def _path(source: Connector | None) -> Path | None:
    return None if source is None else local_path(source)


def _sizes(path: Path) -> Iterator[int]:
    """Bytes of each file below a directory, or of the file itself."""
    if path.is_file():
        yield path.stat().st_size
    for folder, _, names in os.walk(path):
        for name in names:
            with suppress(OSError):  # gone since it was listed
                yield (Path(folder) / name).stat().st_size
