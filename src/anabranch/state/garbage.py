"""Garbage collection: remove what no retained manifest on disk names."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from anabranch.state.fence import highest_epoch
from anabranch.state.layout import BLOCKS, EPOCHS, MANIFESTS, STAGED, TEMPORARY
from anabranch.state.manifest import ManifestKey
from anabranch.state.manifest_log import load, manifest_keys, manifest_name
from anabranch.state.storage import FileInfo, Storage


@dataclass(frozen=True, slots=True)
class Garbage:
    """What a collection removed: files by kind, and bytes of all but the manifests."""

    manifests: int = 0
    blocks: int = 0
    staged: int = 0
    temporary: int = 0
    bytes: int = 0


def collect_garbage(storage: Storage, keep: int = 3) -> Garbage:
    """Delete all but the last `keep` manifests, and the files that none of those names.

    What is needed is read from disk every time: a list in memory may stem from a commit that
    never happened, or miss one that did. Call it between batches; files as new as the newest
    manifest are spared even so, whoever writes them. Results and dead letters must be published
    before their manifest is `keep` manifests old.
    """
    if keep < 1:
        raise ValueError("keep at least one manifest: without any the state is lost")
    keys = manifest_keys(storage)
    obsolete, retained = keys[:-keep], keys[-keep:]
    # Reads before it deletes: a damaged manifest raises here, while nothing is lost.
    orphans = find_orphans(storage, retained)
    # Manifests first, oldest first: a crash leaves orphans, never a manifest without its files.
    for key in obsolete:
        storage.delete(manifest_name(key))
    for file in orphans:
        storage.delete(file.name)
    _delete_old_epochs(storage)
    return _summary(obsolete, orphans)


def find_orphans(storage: Storage, retained: Sequence[ManifestKey]) -> list[FileInfo]:
    """Return the files that none of the retained manifests names and that are older than them.

    Without a manifest nothing is an orphan: the first commit may be under way.
    """
    if not retained:
        return []
    named: set[str] = set()
    for key in retained:
        named |= load(storage, key.batch, key.step).file_names()
    committed_ns = _modified_ns(storage, manifest_name(max(retained)))
    files = [file for folder in (BLOCKS, STAGED, TEMPORARY) for file in storage.scan(folder)]
    return [file for file in files if file.name not in named and file.modified_ns < committed_ns]


def _modified_ns(storage: Storage, name: str) -> int:
    return next(file.modified_ns for file in storage.scan(MANIFESTS) if file.name == name)


def _delete_old_epochs(storage: Storage) -> None:
    latest = f"{EPOCHS}/{highest_epoch(storage):08d}"
    for name in storage.list(EPOCHS):
        if name < latest:  # the latest one alone fences all before it
            storage.delete(name)


def _summary(obsolete: Sequence[ManifestKey], orphans: Sequence[FileInfo]) -> Garbage:
    kinds = Counter(file.name.partition("/")[0] for file in orphans)
    return Garbage(
        manifests=len(obsolete),
        blocks=kinds[BLOCKS],
        staged=kinds[STAGED],
        temporary=kinds[TEMPORARY],
        bytes=sum(file.bytes for file in orphans),
    )
