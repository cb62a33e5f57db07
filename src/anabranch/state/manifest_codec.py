"""Manifests as bytes: one JSON object that carries its own checksum.

::

    {"checksum":"<xxh3_128 of all that follows>","version":3,"batch":12,…}

The checksum is taken over the raw bytes behind it, so nothing is parsed before it is trusted,
and the file is still plain JSON for people and for `jq`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import fields
from typing import Any, TypeVar

import xxhash

from anabranch.state.block_lists import BlockList, Listed, block_from_row, block_to_row, listed
from anabranch.state.catalog_log import CatalogLog, ChangeFile, changes_from, merged, patched
from anabranch.state.errors import CorruptionError, UnsupportedVersionError
from anabranch.state.manifest import (
    VERSION,
    Manifest,
    QueryState,
    QueryStatus,
    ResultFile,
    StreamState,
)
from anabranch.state.side_file import SideFile

_HEAD = b'{"checksum":"'
_DIGITS = 32
_BODY = len(_HEAD) + _DIGITS
_ADVICE = (
    "An older manifest is not a substitute, because the results of this one may be published: "
    "restore the file from a copy, or start again with an empty checkpoint and an empty sink"
)

T = TypeVar("T")


ReadFile = Callable[[SideFile], Any]
"""Reads the content of a side file, checked."""
ReadList = Callable[[SideFile], BlockList]


def encode(manifest: Manifest) -> bytes:
    """Return the file content of a manifest; equal manifests give equal bytes."""
    blocks = listed(manifest.blocks, manifest.lists)
    content = {
        "version": manifest.version,
        **{name: getattr(manifest, name) for name in _SCALARS},
        "streams": _rows(manifest.streams),
        "queries": _rows(_beside(manifest)),
        "partition_map": manifest.partition_map,
        "tracks": manifest.tracks,
        "lists": [[known.file.name, known.file.digest, bits] for known, bits in blocks.lists],
        "blocks": [block_to_row(block) for block in blocks.loose],
        "results": _rows(manifest.results) if manifest.results_file is None else [],
        "results_file": None if manifest.results_file is None else _file_row(manifest.results_file),
        "dead_letters": _rows(manifest.dead_letters),
        "catalog": manifest.catalog if manifest.catalog_log is None else {},
        **_log_rows(manifest.catalog_log),
        "controller": manifest.controller,
        "mail": manifest.mail,
        "tables": manifest.tables,
    }
    text = json.dumps(content, ensure_ascii=True, allow_nan=False, separators=(",", ":"))
    body = b'",' + text[1:].encode("ascii") + b"\n"
    return _HEAD + xxhash.xxh3_128_hexdigest(body).encode("ascii") + body


def decode(
    data: bytes,
    *,
    file: str,
    read_file: ReadFile | None = None,
    read_list: ReadList | None = None,
    read_catalog: ReadFile | None = None,
) -> Manifest:
    """Return the manifest in `data`, the content of `file`, after verifying it.

    Parameters
    ----------
    read_file, read_list
        Read side files; a manifest that names some cannot be read without.
    read_catalog
        Reads those of catalogs, if not `read_file`.
    """
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
        read_file = read_file or _refuse
        return _manifest(content, read_file, read_list or _refuse, read_catalog or read_file)
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


def _rows(items: Iterable[Any]) -> list[list[Any]]:
    # Rows instead of objects: the field names would be most of the file.
    return [[getattr(item, f.name) for f in fields(item)] for item in items]


def _beside(manifest: Manifest) -> list[QueryState]:
    """Queries that are not as a catalog of its own tells of them."""
    if manifest.catalog_log is None:
        return list(manifest.queries)
    global _seen
    catalog, queries, found = _seen
    if catalog is not manifest.catalog or queries is not manifest.queries:
        entries, running, none = manifest.catalog.get("queries", {}), QueryStatus.RUNNING, (None, None)
        told = {name: (entry["fingerprint"], entry["since"]) for name, entry in entries.items()}
        found = [
            s
            for s in manifest.queries
            if s.status is not running
            or told.get(s.name, none) != (s.fingerprint, s.since)
            or (s.failure, s.emitted_us, s.ahead, s.waiting) != _AT_FIRST
        ]
        # A catalog that was read again may have another order: the digest must not depend on it.
        found.sort(key=lambda state: state.name)
        _seen = manifest.catalog, manifest.queries, found
    return found


_AT_FIRST = (None, None, (), 0)
"""Failure, time emitted, partitions ahead, rows that wait: of a query that has just come."""
_seen: tuple[Mapping[str, Any] | None, tuple[QueryState, ...], list[QueryState]] = (None, (), [])
"""What was last compared, and what came of it."""


def query_states(catalog: Mapping[str, Any]) -> dict[str, QueryState]:
    """The queries of a catalog as they begin."""
    queries = catalog.get("queries", {})
    return {name: QueryState(name, q["fingerprint"], q["since"]) for name, q in queries.items()}


def _log_rows(log: CatalogLog | None) -> dict[str, Any]:
    if log is None:
        return {"catalog_file": None}
    changes = [[*_file_row(known.file), known.level] for known in log.changes]
    return {"catalog_file": _file_row(log.whole), **({"catalog_changes": changes} if changes else {})}


def _log(
    row: Sequence[str] | None, changes: Sequence[Sequence[Any]], read_file: ReadFile
) -> CatalogLog | None:
    whole = _file(row)
    if whole is None:
        return None
    files = ((SideFile(name, digest), level) for name, digest, level in changes)
    return CatalogLog(
        whole, tuple(ChangeFile(file, level, changes_from(read_file(file))) for file, level in files)
    )


def _content(log: CatalogLog, read_file: ReadFile) -> Mapping[str, Any]:
    whole = read_file(log.whole)
    return patched(whole, merged([known.changes for known in log.changes])) if log.changes else whole


def _file_row(file: SideFile) -> list[str]:
    return [file.name, file.digest]


def _file(row: Sequence[str] | None) -> SideFile | None:
    if row is None:
        return None
    name, digest = row
    return SideFile(name, digest)


def _refuse(file: SideFile) -> Any:
    raise ValueError(f"{file.name} is needed")


def _manifest(
    content: dict[str, Any], read_file: ReadFile, read_list: ReadList, read_catalog: ReadFile
) -> Manifest:
    given = {
        name: content.pop(name)
        for name in ("version", *_SCALARS, "catalog", "controller", "tracks", "tables")
    }
    results_file = _file(content.pop("results_file"))
    log = _log(content.pop("catalog_file"), content.pop("catalog_changes", ()), read_catalog)
    queries = _items(_query, content.pop("queries"))
    if log is not None:
        given["catalog"] = _content(log, read_catalog)
        queries = tuple((query_states(given["catalog"]) | {q.name: q for q in queries}).values())
    results = content.pop("results")
    lists = [(read_list(SideFile(*row)), bits) for *row, bits in content.pop("lists")]
    blocks = Listed(tuple(lists), _items(block_from_row, [[row] for row in content.pop("blocks")]))
    manifest = Manifest(
        **given,
        streams=_items(StreamState, content.pop("streams")),
        queries=queries,
        partition_map=tuple(content.pop("partition_map")),
        blocks=blocks.blocks(),
        lists=tuple(known for known, _ in lists),
        results=_items(ResultFile, results if results_file is None else read_file(results_file)),
        dead_letters=_items(ResultFile, content.pop("dead_letters")),
        catalog_log=log,
        results_file=results_file,
        mail=tuple((name, refusal) for name, refusal in content.pop("mail")),
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
