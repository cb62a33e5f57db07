"""Delivery: the sinks get the results of a step; which one they have taken last is noted.

An empty file that is named after the step and the digest of its manifest. It may be lost, and one step behind
when a process dies between the sinks and the note: then the sinks see that step twice, and no other.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from anabranch.engine.live.mailbox import answer
from anabranch.engine.sinks.sink import ResultBatch, Sink
from anabranch.engine.sinks.staged_file import StagedFile
from anabranch.engine.task.staging import keep_dead_letters, output_schema, verify_staged
from anabranch.plan.logical import Query
from anabranch.state import Manifest
from anabranch.state.manifest import ManifestKey
from anabranch.state.paths import DELIVERED, STAGED
from anabranch.state.storage import Storage


class Delivery:
    """Gives what was committed to the sinks of a session.

    Parameters
    ----------
    sinks
        By query.
    """

    def __init__(self, storage: Storage, sinks: Mapping[str, Sink]) -> None:
        self._storage = storage
        self._sinks = dict(sinks)
        self._told = False
        """Whether the sinks have heard of a step in this session."""

    def open(self, queries: Iterable[Query]) -> None:
        """Before the first step."""
        for query in queries:
            self._sinks[query.name].open(query.name, output_schema(query))

    def change(self, queries: Iterable[Query], new: Mapping[str, Sink]) -> None:
        """Go on with other queries, some of which have new sinks; these are open."""
        sinks = {**self._sinks, **new}
        self._sinks = {query.name: sinks[query.name] for query in queries}

    def deliver(self, manifest: Manifest, queries: Iterable[Query], *, digest: str) -> None:
        """Give the sinks the results of the newest step, whose manifest has this digest."""
        give_results(manifest, queries, self._sinks, storage=self._storage, everyone=not self._told)
        self._told = True
        keep_dead_letters(self._storage, manifest)
        answer(self._storage, manifest.mail)
        note_delivered(self._storage, manifest.key, digest)

    def deliver_again(self, manifest: Manifest, queries: Iterable[Query], *, digest: str) -> None:
        """Give the sinks what a process committed that is gone, unless it has said that they have it."""
        if digest not in delivered(self._storage):
            # Whatever happened to the files since, they are what was staged or are not published.
            verify_staged(self._storage, manifest)
            self.deliver(manifest, queries, digest=digest)
        answer(self._storage, manifest.mail)  # it may have died before it could say so


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
