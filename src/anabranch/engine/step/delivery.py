"""Delivery: the sinks get the results of a step; which one they have taken last is noted.

An empty file that is named after the step and the digest of its manifest. It may be lost, and one step behind
when a process dies between the sinks and the note: then the sinks see that step twice, and no other.
What a sink does not take is in the checkpoint before the step is noted (`waiting_sinks`).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Hashable, Iterable, Mapping

import pyarrow as pa

from anabranch.adapt.events import Event
from anabranch.engine.live.mailbox import answer
from anabranch.engine.settings import Settings
from anabranch.engine.sinks.shared_sink import PREFIX, key_of, placed_beside
from anabranch.engine.sinks.sink import ResultBatch, Sink
from anabranch.engine.sinks.staged_file import StagedFile
from anabranch.engine.step.waiting_sinks import WaitingSinks
from anabranch.engine.task.results.staging import keep_dead_letters, output_schema, verify_files
from anabranch.errors import SinkError, StateError
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
    settings
        What a sink that fails leads to.
    """

    def __init__(
        self,
        storage: Storage,
        sinks: Mapping[str, Sink],
        settings: Settings,
        *,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._storage = storage
        self.sinks = dict(sinks)
        """By owner."""
        self._waiting = WaitingSinks(storage, settings, clock, self._users)
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

    def open(self, queries: Iterable[Query], known: Collection[str] = ()) -> None:
        """Before the first step.

        Parameters
        ----------
        known
            Queries that an earlier session had: their sinks may wait if they cannot be opened.
        """
        self.change(queries, {})
        for owner, query in self._owners.items():
            schema = output_schema(query)
            self._waiting.open(self.sinks[owner], owner, schema, known=query.name in known)

    def change(self, queries: Iterable[Query], new: Mapping[str, Sink]) -> None:
        """Go on with other queries, some of which have new sinks, by query; these are open."""
        sinks = {**self.sinks, **new}
        before, self._owners, self._queries = self._owners, {}, tuple(queries)
        for query in self._queries:
            self._owners.setdefault(query.owner, query)
        for owner in [o for o in self._waiting.waits if o not in self._owners]:
            schema = output_schema(before[owner]) if owner in before else pa.schema([])
            self._waiting.forget(owner, sinks.get(owner), schema)
        self.sinks = {
            owner: sinks[owner] if owner in sinks else sinks[query.name]
            for owner, query in self._owners.items()
        }
        failed = self._waiting.failed
        self._waiting.failed = {owner: why for owner, why in failed.items() if owner in self.sinks}
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
            verify_files(self._storage, STAGED, (*manifest.results, *manifest.dead_letters))
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
            if owner in self.sinks:
                batch = ResultBatch(owner, *where, self._schema(owner), tuple(files.get(owner, ())))
                self._waiting.publish(self.sinks[owner], batch)
        self._waiting.try_again(self.sinks, self._schema, now=False)

    def obey(self, settings: Settings) -> None:
        """Go on with other settings."""
        self._waiting.settings = settings

    @property
    def is_due(self) -> bool:
        """Whether a sink that has failed is to be tried again."""
        return bool(self._waiting.waits) and self._waiting.is_due()

    def try_again(self, *, now: bool = False) -> None:
        """Give sinks what they have missed, without a new step: those whose pause is over, or all."""
        self._waiting.try_again(self.sinks, self._schema, now=now)

    def news(self) -> tuple[Event, ...]:
        """What has happened to sinks since this was last asked."""
        found, self._waiting.events = tuple(self._waiting.events), []
        return found

    def undelivered(self) -> dict[str, tuple[int, str]]:
        """By query whose sink waits: results that wait for it, of all who share it, and why."""
        waiting = {
            owner: (sum(owed.rows for owed in self._waiting.backlog.of(owner)), wait.why)
            for owner, wait in self._waiting.waits.items()
        }
        return {q.name: waiting[q.owner] for q in self._queries if q.owner in waiting} if waiting else {}

    def check_all_taken(self) -> None:
        """Refuse to call a run complete while sinks have not taken all of it."""
        if left := {name: told for name, told in self.undelivered().items() if told[0]}:
            name, (rows, why) = next(iter(left.items()))
            more = f" (and {len(left) - 1} more queries wait)" if len(left) > 1 else ""
            raise SinkError(
                f"query {name!r}: {rows:,} results were not taken by its sink: {why}{more}. They are "
                "kept in the checkpoint: mend the sink and start again, which delivers them"
            )

    def queries_ended(self) -> dict[str, str]:
        """Queries for whose sinks too much waits, with the reason."""
        failed = self._waiting.failed
        if not failed:
            return {}
        return {q.name: f"query {q.name!r}: {failed[q.owner]}" for q in self._queries if q.owner in failed}

    def _schema(self, owner: str) -> pa.Schema:
        return output_schema(self._owners[owner])

    def _users(self, owner: str) -> list[str]:
        return [query.name for query in self._queries if query.owner == owner]


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
