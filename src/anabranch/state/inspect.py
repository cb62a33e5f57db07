"""A checkpoint in numbers, for people: what `anabranch state` shows."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from typing import Any

from anabranch.errors import StateError
from anabranch.state.block import BlockMeta
from anabranch.state.fence import highest_epoch
from anabranch.state.garbage import find_orphans
from anabranch.state.manifest import Manifest, ResultFile
from anabranch.state.manifest_log import manifest_keys, newest, verify_chain
from anabranch.state.paths import BLOCKS, CATALOGS, LISTS, STAGED
from anabranch.state.storage import Storage

Json = dict[str, Any]

_TRIES = 5


def describe(storage: Storage) -> Json:
    """Return the content of a checkpoint as a JSON-ready dictionary.

    It reads only, and may be used beside a live session. A damaged newest manifest raises; a
    damaged older one, or a broken chain, is reported under ``chain``.
    """
    for _ in range(_TRIES - 1):
        try:
            return _describe(storage)
        except FileNotFoundError:
            continue  # the session collected a manifest that we had just listed
    return _describe(storage)


def _describe(storage: Storage) -> Json:
    manifest = newest(storage)
    return {
        "writer_epoch": highest_epoch(storage),
        "chain": _describe_chain(storage),
        "newest": None if manifest is None else _describe_manifest(manifest),
        "missing": [] if manifest is None else _missing(storage, manifest),
        "orphans": _describe_orphans(storage),
    }


def _describe_chain(storage: Storage) -> Json:
    manifests = len(manifest_keys(storage))
    try:
        verify_chain(storage)
    except StateError as error:
        return {"manifests": manifests, "verified": False, "problem": str(error)}
    return {"manifests": manifests, "verified": True, "problem": None}


def _describe_manifest(manifest: Manifest) -> Json:
    return {
        "batch": manifest.batch,
        "step": manifest.step,
        "epoch": manifest.epoch,
        "committed_at": manifest.committed_at,
        "source_id": manifest.source_id,
        "sites": manifest.sites,
        "partitions": len(manifest.partition_map),
        "streams": {
            stream.name: {
                "max_ts": stream.max_ts,
                "watermark": stream.watermark,
                "accepted": stream.accepted,
                "late": stream.late,
                "refused": stream.refused,
                "rejected": stream.rejected,
            }
            for stream in manifest.streams
        },
        "states": _describe_states(manifest.blocks),
        "queries": {
            query.name: {"status": str(query.status), "since": query.since, "failure": query.failure}
            | ({} if query.emitted_us is None else {"emitted_us": query.emitted_us})
            for query in manifest.queries
        },
        "results": _describe_files(manifest.results),
        "dead_letters": _describe_files(manifest.dead_letters),
    }


def _describe_states(blocks: Iterable[BlockMeta]) -> Json:
    states: dict[str, list[BlockMeta]] = defaultdict(list)
    for block in blocks:
        states[block.state].append(block)
    return {
        state: {
            "blocks": len(members),
            "rows": sum(block.rows for block in members),
            "bytes": sum(block.bytes for block in members),
            "min_ts": min(block.min_ts for block in members),
            "max_ts": max(block.max_ts for block in members),
        }
        for state, members in sorted(states.items())
    }


def _describe_files(files: Iterable[ResultFile]) -> Json:
    queries: dict[str, list[ResultFile]] = defaultdict(list)
    for file in files:
        queries[file.query].append(file)
    return {
        query: {
            "files": len(members),
            "rows": sum(file.rows for file in members),
            "bytes": sum(file.bytes for file in members),
        }
        for query, members in sorted(queries.items())
    }


def _missing(storage: Storage, manifest: Manifest) -> list[str]:
    """Return the names of files that the manifest needs and the checkpoint does not have."""
    present = {name for folder in (BLOCKS, STAGED, CATALOGS, LISTS) for name in storage.list(folder)}
    return sorted(manifest.file_names() - present)


def _describe_orphans(storage: Storage) -> Json:
    """Count what garbage collection would find if it kept every manifest."""
    try:
        orphans = find_orphans(storage, manifest_keys(storage))
    except StateError as error:
        return {"files": None, "bytes": None, "names": [], "problem": str(error)}
    return {
        "files": len(orphans),
        "bytes": sum(file.bytes for file in orphans),
        "names": [file.name for file in orphans],
        "problem": None,
    }
