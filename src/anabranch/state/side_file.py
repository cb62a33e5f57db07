"""Side files: large parts of manifests that stay the same from step to step, or are too many.

A catalog of thousands of queries, or a list of thousands of blocks, is written once, durable before the first
manifest that names it, and spared as long as one does. The name has the stamp of the step that wrote it, by
which garbage is told, and the digest of its content.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import xxhash

from anabranch.state.errors import CorruptionError
from anabranch.state.stamp import Stamp, stamp_of
from anabranch.state.storage import Storage

KEPT = 64
"""Side files whose content a process remembers."""


@dataclass(frozen=True, slots=True)
class SideFile:
    """A file that a manifest names.

    Attributes
    ----------
    name
        Relative to the checkpoint.
    digest
        Hexadecimal xxh3_128 of its content.
    data
        The content, at the session that made it; else empty.
    """

    name: str
    digest: str
    data: bytes = field(default=b"", compare=False, repr=False)

    @classmethod
    def of(cls, folder: str, stamp: Stamp, content: Any) -> SideFile:
        """Make a file of JSON content; it is written by `publish`."""
        data = json.dumps(content, ensure_ascii=True, allow_nan=False, separators=(",", ":")).encode("ascii")
        digest = xxhash.xxh3_128_hexdigest(data)
        return cls(f"{folder}/{stamp}-{digest}.json", digest, data)


def write_side_files(storage: Storage, files: Sequence[SideFile], stamp: Stamp) -> None:
    """Make those files durable that a step has made; others are named by an earlier manifest."""
    for file in files:
        if stamp_of(file.name) == stamp:
            storage.put_if_absent(file.name, file.data)


@lru_cache(maxsize=KEPT)
def read_side_file(storage: Storage, file: SideFile) -> Any:
    """Return the content after checking it. It is shared: nobody may change it."""
    advice = "Restore the file from a copy, or start again with an empty checkpoint and an empty sink"
    try:
        data = storage.read(file.name)
    except FileNotFoundError as error:
        raise CorruptionError(file.name, expected="a file", found="none", advice=advice) from error
    found = xxhash.xxh3_128_hexdigest(data)
    if found != file.digest:
        expected = f"content with checksum {file.digest}"
        raise CorruptionError(
            file.name, expected=expected, found=f"{len(data)} bytes with checksum {found}", advice=advice
        )
    return json.loads(data)
