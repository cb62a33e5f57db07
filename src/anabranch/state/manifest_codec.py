"""Manifests as bytes: one JSON object that carries its own checksum.

::

    {"checksum":"<xxh3_128 of all that follows>","version":3,"batch":12,…}

The checksum is taken over the raw bytes behind it, so nothing is parsed before it is trusted,
and the file is still plain JSON for people and for `jq`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import fields
from typing import Any, TypeVar

import xxhash

from anabranch.state.block import BlockMeta
from anabranch.state.errors import CorruptionError, UnsupportedVersionError
from anabranch.state.manifest import (
    VERSION,
    Manifest,
    QueryState,
    QueryStatus,
    ResultFile,
    StreamState,
)

_HEAD = b'{"checksum":"'
_DIGITS = 32
_BODY = len(_HEAD) + _DIGITS
_ADVICE = (
    "An older manifest is not a substitute, because the results of this one may be published: "
    "restore the file from a copy, or start again with an empty checkpoint and an empty sink"
)

T = TypeVar("T")


def encode(manifest: Manifest) -> bytes:
    """Return the file content of a manifest; equal manifests give equal bytes."""
    content = {
        "version": manifest.version,
        **{name: getattr(manifest, name) for name in _SCALARS},
        "streams": _rows(manifest.streams),
        "queries": _rows(manifest.queries),
        "partition_map": manifest.partition_map,
        "tracks": manifest.tracks,
        "blocks": [_block_row(block) for block in manifest.blocks],
        "results": _rows(manifest.results),
        "dead_letters": _rows(manifest.dead_letters),
        "catalog": manifest.catalog,
        "controller": manifest.controller,
    }
    text = json.dumps(content, ensure_ascii=True, allow_nan=False, separators=(",", ":"))
    body = b'",' + text[1:].encode("ascii") + b"\n"
    return _HEAD + xxhash.xxh3_128_hexdigest(body).encode("ascii") + body


def decode(data: bytes, *, file: str) -> Manifest:
    """Return the manifest in `data`, the content of `file`, after verifying it."""
    stored_digest(data, file=file)
    content = json.loads(data)
    del content["checksum"]
    version = content.get("version")
    if version != VERSION:
        raise UnsupportedVersionError(
            f"{file} has format version {version}, this Anabranch reads version {VERSION}: "
            "continue with the version that wrote the checkpoint"
        )
    try:
        return _manifest(content)
    except (KeyError, TypeError, ValueError) as error:
        # Not damage, the checksum agrees: somebody wrote other fields under our version number.
        raise CorruptionError(
            file, expected=f"the fields of version {VERSION}", found=repr(error), advice=_ADVICE
        ) from error


def digest(manifest: Manifest) -> str:
    """Return the checksum that the next manifest names as its parent."""
    return encode(manifest)[len(_HEAD) : _BODY].decode("ascii")


def stored_digest(data: bytes, *, file: str) -> str:
    """Return the checksum in a manifest's bytes after comparing it with its content."""
    written = data[len(_HEAD) : _BODY].decode("ascii", "replace")
    actual = xxhash.xxh3_128_hexdigest(data[_BODY:])
    if not data.startswith(_HEAD) or written != actual:
        found = f"{len(data)} bytes with checksum {actual}"
        raise CorruptionError(
            file, expected=f"a manifest with checksum {written!r}", found=found, advice=_ADVICE
        )
    return actual


_SCALARS = (
    *("batch", "step", "number", "parent", "epoch", "attempt"),
    *("offsets", "source_id", "committed_at", "sites"),
)
_BLOCK_FIELDS = tuple(f.name for f in fields(BlockMeta) if f.name != "partitions")


def _rows(items: Iterable[Any]) -> list[list[Any]]:
    # Rows instead of objects: the field names would be most of the file.
    return [[getattr(item, f.name) for f in fields(item)] for item in items]


def _block_row(block: BlockMeta) -> list[Any]:
    row: list[Any] = [getattr(block, name) for name in _BLOCK_FIELDS]
    row.append(_encode_partitions(block.partitions))
    return row


def _encode_partitions(partitions: Sequence[tuple[int, int]]) -> list[list[int]]:
    """Turn (partition, rows) pairs into runs [first partition, rows, rows, …].

    >>> _encode_partitions(((4, 100), (5, 90), (9, 80)))
    [[4, 100, 90], [9, 80]]
    """
    runs: list[list[int]] = []
    expected = None
    for partition, rows in partitions:
        if partition != expected:
            run = [partition]
            runs.append(run)
        run.append(rows)
        expected = partition + 1
    return runs


def _decode_partitions(runs: list[list[int]]) -> tuple[tuple[int, int], ...]:
    return tuple(pair for first, *rows in runs for pair in enumerate(rows, first))


def _manifest(content: dict[str, Any]) -> Manifest:
    given = {name: content.pop(name) for name in ("version", *_SCALARS, "catalog", "controller", "tracks")}
    manifest = Manifest(
        **given,
        streams=_items(StreamState, content.pop("streams")),
        queries=_items(_query, content.pop("queries")),
        partition_map=tuple(content.pop("partition_map")),
        blocks=_items(_block, content.pop("blocks")),
        results=_items(ResultFile, content.pop("results")),
        dead_letters=_items(ResultFile, content.pop("dead_letters")),
    )
    if content:
        raise ValueError(f"unknown fields {sorted(content)}")
    return manifest


def _items(build: Callable[..., T], rows: list[list[Any]]) -> tuple[T, ...]:
    return tuple(build(*row) for row in rows)


def _query(
    name: str,
    fingerprint: str,
    since: int,
    status: str,
    failure: str | None,
    emitted_us: int | None,
    ahead: Sequence[tuple[int, int]] = (),
    waiting: int = 0,
) -> QueryState:
    pairs = tuple((partition, time) for partition, time in ahead)
    return QueryState(name, fingerprint, since, QueryStatus(status), failure, emitted_us, pairs, waiting)


def _block(*row: Any) -> BlockMeta:
    *known, runs = row
    named = dict(zip(_BLOCK_FIELDS, known, strict=True))
    return BlockMeta(**named, partitions=_decode_partitions(runs))
