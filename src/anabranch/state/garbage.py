"""Garbage collection: remove what no retained manifest on disk names."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from anabranch.state.fence import highest_epoch
from anabranch.state.manifest import Manifest, ManifestKey
from anabranch.state.manifest_log import key_of, load_names, manifest_keys, manifest_name
from anabranch.state.paths import BLOCKS, CATALOGS, EPOCHS, LISTS, MANIFESTS, STAGED, TEMPORARY
from anabranch.state.stamp import stamp_of
from anabranch.state.storage import FileInfo, Storage


@dataclass(frozen=True, slots=True)
class Garbage:
    """What a collection removed: files by kind, and bytes of all but the manifests."""

    manifests: int = 0
    blocks: int = 0
    staged: int = 0
    side_files: int = 0
    temporary: int = 0
    bytes: int = 0


def collect_garbage(storage: Storage, keep: int = 3) -> Garbage:
    """Delete all but the last `keep` manifests, and the files that none of those names.

    What is needed is read from disk every time: a list in memory may stem from a commit that
    never happened, or miss one that did. Files of a step that may be under way are spared, whoever
    runs it. Results and dead letters must be published before their manifest is `keep` manifests old.
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
    """Return the files that none of the retained manifests names and that no step to come can name.

    Without a manifest nothing is an orphan: the first commit may be under way.
    """
    if not retained:
        return []
    manifests = [load_names(storage, key) for key in retained]
    named = set().union(*(manifest.file_names() for manifest in manifests))
    last = max(manifests, key=lambda manifest: manifest.key)
    files = [file for folder in (BLOCKS, STAGED, CATALOGS, LISTS) for file in storage.scan(folder)]
    orphans = [file for file in files if file.name not in named and _is_past(file.name, last)]
    return orphans + [file for file in storage.scan(TEMPORARY) if _is_left_over(file.name, last)]


def _is_past(name: str, last: Manifest) -> bool:
    """Whether the step that wrote a file is over.

    A later epoch than the newest manifest's is a session before its first commit. An earlier one cannot
    commit any more: the newest manifest is not its own.
    """
    stamp = stamp_of(name)
    if stamp is None:
        return False  # not written by us
    return stamp <= (last.epoch, last.batch, last.step)


def _is_left_over(name: str, last: Manifest) -> bool:
    """Whether a temporary file was to become a manifest that is there by now, or another in its place."""
    key = key_of(f"{MANIFESTS}/{name.removeprefix(f'{TEMPORARY}/').rpartition('.')[0]}")
    return key is not None and key <= last.key


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
        side_files=kinds[CATALOGS] + kinds[LISTS],
        temporary=kinds[TEMPORARY],
        bytes=sum(file.bytes for file in orphans),
    )
