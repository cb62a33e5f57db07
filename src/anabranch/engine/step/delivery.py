"""Delivery: the sinks get the results of a step; which one they have taken last is noted.

An empty file that is named after the step and the digest of its manifest. It may be lost, and one step behind
when a process dies between the sinks and the note: then the sinks see that step twice, and no other.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from anabranch.engine.sinks.sink import ResultBatch, Sink
from anabranch.engine.sinks.staged_file import StagedFile
from anabranch.engine.task.staging import output_schema
from anabranch.plan.logical import Query
from anabranch.state import Manifest
from anabranch.state.manifest import ManifestKey
from anabranch.state.paths import DELIVERED, STAGED
from anabranch.state.storage import Storage


def give_results(
    manifest: Manifest,
    queries: Iterable[Query],
    sinks: Mapping[str, Sink],
    *,
    storage: Storage,
    everyone: bool = True,
) -> None:
    """Give every sink the results of a step, if only to say that there are none.

    Parameters
    ----------
    everyone
        Also sinks that do not want to hear of a step without results (`only_rows`), of which there may be
        thousands: at the start of a session they compare what they have with the checkpoint.
    """
    files: dict[str, list[StagedFile]] = {}
    for file in manifest.results:
        files.setdefault(file.query, []).append(StagedFile(storage, file))
    storage.need_local(f"{STAGED}/{file.name}" for file in manifest.results)
    for query in queries:
        mine = tuple(files.get(query.name, ()))
        if not mine and not everyone and getattr(sinks[query.name], "only_rows", False):
            continue
        where = manifest.batch, manifest.step, manifest.number
        sinks[query.name].publish(ResultBatch(query.name, *where, output_schema(query), mine))


def note_delivered(storage: Storage, key: ManifestKey, digest: str) -> None:
    """The sinks have the results of the manifest with this digest."""
    note = f"{DELIVERED}/{key.batch:010d}.{key.step:04d}-{digest}"
    older = [name for name in storage.list(DELIVERED) if name != note]
    storage.put_if_absent(note, b"", durable=False)
    for name in older:
        storage.delete(name)


def delivered(storage: Storage) -> frozenset[str]:
    """Digests of the last manifests whose results the sinks are known to have: of one, or it and the next."""
    return frozenset(name.rpartition("-")[2] for name in storage.list(DELIVERED))
