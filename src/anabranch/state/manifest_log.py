"""The history of manifests: published once each, chained by digest, never rewritten."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from functools import partial

from anabranch.state.block_lists import read_list
from anabranch.state.errors import CorruptionError, FencedError, ManifestConflict
from anabranch.state.fence import highest_epoch
from anabranch.state.manifest import NO_PARENT, Manifest, ManifestKey
from anabranch.state.manifest_codec import ReadFile, decode, encode, stored_digest
from anabranch.state.paths import MANIFESTS
from anabranch.state.side_file import read_side_file, write_side_files
from anabranch.state.storage import Storage

_FILE = re.compile(rf"{MANIFESTS}/(\d{{10}})\.(\d{{4,}})\.json\Z")


def manifest_name(key: ManifestKey) -> str:
    """Return the file name of a manifest.

    >>> manifest_name(ManifestKey(12, 0))
    'manifests/0000000012.0000.json'
    """
    return f"{MANIFESTS}/{key.batch:010d}.{key.step:04d}.json"


def manifest_keys(storage: Storage) -> list[ManifestKey]:
    """Return the keys of all stored manifests, oldest first."""
    keys = map(key_of, storage.list(MANIFESTS))
    return sorted(key for key in keys if key is not None)


def key_of(name: str) -> ManifestKey | None:
    """Return the key of the manifest with this file name; None if it is none's.

    >>> key_of("manifests/0000000012.0000.json")
    ManifestKey(batch=12, step=0)
    """
    match = _FILE.match(name)
    return ManifestKey(int(match[1]), int(match[2])) if match else None


def publish(storage: Storage, manifest: Manifest) -> str:
    """Commit a manifest and return its digest, the parent of the next one.

    Calling it again with the same manifest is safe: that is what to do when the outcome of the
    first call is unknown.

    Raises
    ------
    ManifestConflict
        Another attempt committed this step or a later one, or the parent is not the newest manifest.
    FencedError
        A later session has taken over.
    """
    data = encode(manifest)
    name = manifest_name(manifest.key)
    keys = manifest_keys(storage)
    if manifest.key not in keys:
        _check_epoch(storage, manifest)
        _check_continues(storage, manifest, keys)
        write_side_files(storage, manifest.side_files(), manifest.stamp)
    storage.put_if_absent(name, data)
    # Read back in every case: whoever was first, what counts is what is there now.
    return _check_ours(storage.read(name), data, manifest)


def load(storage: Storage, batch: int, step: int) -> Manifest:
    """Return one manifest, verified.

    Raises
    ------
    FileNotFoundError
        There is no such manifest.
    CorruptionError
        It is damaged.
    """
    key = ManifestKey(batch, step)
    return _load(storage, key)[0]


def load_names(storage: Storage, key: ManifestKey) -> Manifest:
    """Return one manifest, verified, for the files that it names: its catalog is not read."""
    return _load(storage, key, read_catalog=lambda file: {})[0]


def newest(storage: Storage) -> Manifest | None:
    """Return the last committed manifest, or None in an empty checkpoint.

    A damaged newest manifest is an error. Falling back to the one before would repeat a step
    whose results may already be published.
    """
    keys = manifest_keys(storage)
    return _load(storage, keys[-1])[0] if keys else None


def recover(storage: Storage) -> Manifest | None:
    """Return the newest manifest after making sure that it will stay: what a session starts from.

    Its writer may have died before its name was durable. To publish its results and then lose
    it to a power failure would repeat them.
    """
    manifest = newest(storage)
    if manifest is not None:
        storage.put_if_absent(manifest_name(manifest.key), encode(manifest))
    return manifest


def verify_chain(storage: Storage) -> int:
    """Check that every stored manifest continues the one before it; return their number.

    The parent of the oldest one may have been collected as garbage.

    Raises
    ------
    CorruptionError
        A manifest is damaged, missing in between, or was replaced.
    """
    count = 0
    before: Manifest | None = None
    parent = NO_PARENT
    for manifest, checksum in _load_all(storage):
        if before is not None:
            _check_link(before, parent, manifest)
        before, parent = manifest, checksum
        count += 1
    return count


def _load(storage: Storage, key: ManifestKey, read_catalog: ReadFile | None = None) -> tuple[Manifest, str]:
    name = manifest_name(key)
    data = storage.read(name)
    manifest = decode(
        data,
        file=name,
        read_file=partial(read_side_file, storage),
        read_list=partial(read_list, storage),
        read_catalog=read_catalog,
    )
    if manifest.key != key:
        raise _broken(name, _words(key), _words(manifest.key))
    return manifest, stored_digest(data, file=name)


def _load_all(storage: Storage) -> Iterator[tuple[Manifest, str]]:
    for key in manifest_keys(storage):
        yield _load(storage, key)


def _check_link(before: Manifest, parent: str, manifest: Manifest) -> None:
    name = manifest_name(manifest.key)
    if manifest.parent != parent:
        expected = f"parent {parent} ({manifest_name(before.key)})"
        raise _broken(name, expected, f"parent {manifest.parent!r}")
    if manifest.epoch < before.epoch:
        raise _broken(name, f"writer epoch {before.epoch} or later", f"epoch {manifest.epoch}")


def _check_epoch(storage: Storage, manifest: Manifest) -> None:
    # The session checks as well, earlier and cheaper to recover from; this is the last gate.
    highest = highest_epoch(storage)
    if highest > manifest.epoch:
        raise FencedError(
            f"cannot commit {manifest_name(manifest.key)} as writer epoch {manifest.epoch}: "
            f"epoch {highest} has taken over the checkpoint, and this session must stop"
        )


def _check_continues(storage: Storage, manifest: Manifest, keys: list[ManifestKey]) -> None:
    if not keys:
        return
    last = manifest_name(keys[-1])
    if keys[-1] > manifest.key:
        raise ManifestConflict(
            f"cannot commit {manifest_name(manifest.key)}: {last} is already there. "
            "Another session went on from here; stop this one"
        )
    parent = stored_digest(storage.read(last), file=last)
    if manifest.parent != parent:
        raise ManifestConflict(
            f"cannot commit {manifest_name(manifest.key)}: its parent is {manifest.parent!r}, "
            f"but the newest manifest is {last} with digest {parent}. Start again from the newest one"
        )


def _check_ours(stored: bytes, data: bytes, manifest: Manifest) -> str:
    name = manifest_name(manifest.key)
    digest = stored_digest(stored, file=name)
    if stored == data:
        return digest
    other = json.loads(stored)
    raise ManifestConflict(
        f"{name} was committed by attempt {other['attempt']!r} of writer epoch {other['epoch']}, "
        f"this is attempt {manifest.attempt!r} of epoch {manifest.epoch}, with other content. "
        "Another session committed first: stop this one, or start again from the newest manifest"
    )


def _broken(file: str, expected: str, found: str) -> CorruptionError:
    advice = "The history has been altered: restore the checkpoint directory from a copy"
    return CorruptionError(file, expected=expected, found=found, advice=advice)


def _words(key: ManifestKey) -> str:
    return f"batch {key.batch}, step {key.step}"
