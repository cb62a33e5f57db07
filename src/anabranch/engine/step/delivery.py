"""Delivery: the sinks get the results of a step; which one they have taken last is noted.

An empty file that is named after the step and the digest of its manifest. It may be lost, and one step behind
when a process dies between the sinks and the note: then the sinks see that step twice, and no other.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping

from anabranch.engine.live.mailbox import answer
from anabranch.engine.sinks.shared_sink import PREFIX, key_of, placed_beside
from anabranch.engine.sinks.sink import ResultBatch, Sink
from anabranch.engine.sinks.staged_file import StagedFile
from anabranch.engine.task.results.staging import keep_dead_letters, output_schema, verify_staged
from anabranch.errors import StateError
from anabranch.plan.logical import Query
from anabranch.state import Manifest
from anabranch.state.manifest import ManifestKey
from anabranch.state.paths import DELIVERED, STAGED, UNDELIVERED
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
        self.goes_on = False
        """Whether a sink that fails ends its queries alone, instead of the session."""
        self.failed: dict[str, str] = {}
        """Why sinks are given nothing any more, by owner."""
        self.sinks = dict(sinks)
        """By owner."""
        self._queries: tuple[Query, ...] = ()
        self._owners: dict[str, Query] = {}
        """By owner, a query that writes under this name."""
        self._by_key: dict[Hashable, tuple[Query, Sink]] = {}
        """Who writes to which sink, or is to."""
        self._patient: tuple[str, ...] = ()
        """Owners whose sinks hear of every step."""
        self._told = False
        """Whether the sinks have heard of a step in this session."""

    def placed(self, query: Query, sink: Sink) -> Query:
        """A query that is to come, with the name of the place that it shares."""
        return placed_beside(query, sink, self._by_key.get(key_of(sink)))

    def expect(self, query: Query, sink: Sink) -> None:
        """Remember a query that is to come: others may share its sink."""
        self._by_key.setdefault(key_of(sink), (query, sink))

    def open(self, queries: Iterable[Query]) -> None:
        """Before the first step."""
        self.change(queries, {})
        for owner, query in self._owners.items():
            self.sinks[owner].open(owner, output_schema(query))

    def change(self, queries: Iterable[Query], new: Mapping[str, Sink]) -> None:
        """Go on with other queries, some of which have new sinks, by query; these are open."""
        sinks = {**self.sinks, **new}
        self._owners, self._queries = {}, tuple(queries)
        for query in self._queries:
            self._owners.setdefault(query.owner, query)
        self.sinks = {
            owner: sinks[owner] if owner in sinks else sinks[query.name]
            for owner, query in self._owners.items()
        }
        self.failed = {owner: why for owner, why in self.failed.items() if owner in self.sinks}
        self._by_key = {key_of(sink): (self._owners[owner], sink) for owner, sink in self.sinks.items()}
        self._patient = tuple(o for o, sink in self.sinks.items() if not getattr(sink, "only_rows", False))

    def deliver(self, manifest: Manifest, *, digest: str) -> None:
        """Give the sinks the results of the newest step, whose manifest has this digest."""
        self._give(manifest)
        self._told = True
        keep_dead_letters(self._storage, manifest)
        answer(self._storage, manifest.mail)
        note_delivered(self._storage, manifest.key, digest)

    def deliver_again(self, manifest: Manifest, *, digest: str) -> None:
        """Give the sinks what a process committed that is gone, unless it has said that they have it."""
        if digest not in delivered(self._storage):
            # Whatever happened to the files since, they are what was staged or are not published.
            verify_staged(self._storage, manifest)
            self.deliver(manifest, digest=digest)
        answer(self._storage, manifest.mail)  # it may have died before it could say so

    def _give(self, manifest: Manifest) -> None:
        """Give the sinks the results of a step, if only to say that there are none.

        At the start of a session all of them, which compare what they have with the checkpoint. Then those
        that have results, and those that want to hear of every step: there may be thousands of others.
        """
        files: dict[str, list[StagedFile]] = {}
        for file in manifest.results:
            files.setdefault(file.query, []).append(StagedFile(self._storage, file))
        self._storage.need_local(f"{STAGED}/{file.name}" for file in manifest.results)
        if lost := next((o for o in files if o.startswith(PREFIX) and o not in self.sinks), None):
            raise StateError(
                f"the last step has results for a sink that queries share ({lost}), and none of them is "
                "there any more: start once with the queries as they were"
            )
        told = dict.fromkeys((*files, *self._patient)) if self._told else self.sinks
        where = manifest.batch, manifest.step, manifest.number
        for owner in told:
            if owner in self.sinks and owner not in self.failed:
                schema = output_schema(self._owners[owner])
                batch = ResultBatch(owner, *where, schema, tuple(files.get(owner, ())))
                self._publish(self.sinks[owner], batch)

    def _publish(self, sink: Sink, results: ResultBatch) -> None:
        if not self.goes_on:
            sink.publish(results)
            return
        try:
            sink.publish(results)
        except Exception as error:
            for file in results.files:
                self._storage.link(f"{STAGED}/{file.file.name}", f"{UNDELIVERED}/{file.file.name}")
            why = str(error).strip().splitlines() or [type(error).__name__]
            self.failed[results.query] = (
                f"its sink failed and it was ended: {why[0]}. Results of batch {results.batch} that the sink "
                f"may not have are kept in {UNDELIVERED}/: mend the sink, start the query under a new name"
            )

    def queries_ended(self) -> dict[str, str]:
        """Queries whose sink has failed, with the reason."""
        if not self.failed:
            return {}
        return {
            query.name: f"query {query.name!r}: {self.failed[query.owner]}"
            for query in self._queries
            if query.owner in self.failed
        }


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
