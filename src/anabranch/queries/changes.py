"""Queries that come and go while a session runs: what a user asks for, and the catalog after it.

A query that comes counts from the batch after the step that took it in. One that goes stays in the catalog
for one step more, as dropped: a crash before its sink has the results of its last step must not lose them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from anabranch.errors import ConfigError, StateError
from anabranch.language.flow import bind_query
from anabranch.plan.logical import Connector, Query, Stream
from anabranch.queries.catalog import Catalog, reconcile
from anabranch.state import Manifest, QueryStatus


@dataclass(frozen=True, slots=True)
class Add:
    """A query that is to run."""

    query: Query

    @property
    def name(self) -> str:
        return self.query.name


@dataclass(frozen=True, slots=True)
class Drop:
    """A query that is to end."""

    name: str


@dataclass(frozen=True, slots=True)
class Replace:
    """A query that is to go on with another text: with its state if that has all it needs, else anew."""

    query: Query

    @property
    def name(self) -> str:
        return self.query.name


Change = Add | Drop | Replace


def check_change(change: Change, catalog: Catalog, pending: Sequence[Change]) -> None:
    """Refuse a change that makes no sense after those that are under way."""
    there = {s.name for s in catalog.states if s.status is not QueryStatus.DROPPED} - catalog.groups.keys()
    going = {other.name for other in pending if isinstance(other, Drop)}
    there = (there - going) | {other.name for other in pending if not isinstance(other, Drop)}
    if isinstance(change, Add):
        if change.name in there:
            raise ConfigError(
                f"there is a query {change.name!r} already: choose another name, or drop it first"
            )
        if change.name in going:
            raise ConfigError(f"query {change.name!r} is just being dropped: add it after the next batch")
        return
    if change.name not in there:
        listed = ", ".join(sorted(there)[:20]) or "none"
        raise ConfigError(f"there is no query {change.name!r}: choose from {listed}")
    if any(change.name in members for members in catalog.groups.values()):
        raise ConfigError(
            f"query {change.name!r} shares its work with others, which cannot change while the session runs: "
            "change it and start again, or start with sharing = 'off'"
        )
    if isinstance(change, Replace):
        _check_outputs(change.query, catalog, pending)
    elif there == {change.name}:
        raise ConfigError(f"{change.name!r} is the only query: stop the session instead of dropping it")


def _check_outputs(query: Query, catalog: Catalog, pending: Sequence[Change]) -> None:
    known = {q.name: q for q in catalog.answered}
    known |= {other.name: other.query for other in pending if not isinstance(other, Drop)}
    before = [(o.name, o.type) for o in known[query.name].outputs]
    if [(o.name, o.type) for o in query.outputs] != before:
        columns = ", ".join(f"{name} {kind}" for name, kind in before)
        raise ConfigError(
            f"query {query.name!r} has the results {columns}: select the same, or drop it and add another"
        )


def changed(catalog: Catalog, changes: Sequence[Change], manifest: Manifest) -> Catalog:
    """The catalog after a step at whose end queries come and go.

    Parameters
    ----------
    manifest
        Of the step, with its catalog as it ran: what queries that stay must agree with.
    """
    if all(isinstance(change, Drop) for change in changes):
        return _without(catalog, {change.name for change in changes})
    gone = catalog.dropped()
    queries = {q.name: q for q in catalog.answered if q.name not in gone}
    new: set[str] = set()
    dropped: set[str] = set()
    for change in changes:
        if isinstance(change, Drop):
            dropped.add(change.name)
            if change.name in new:  # it has never run
                del queries[change.name]
                dropped.discard(change.name)
        else:
            if isinstance(change, Add) or not _fits(change.query, catalog, manifest):
                new.add(change.name)
            queries[change.name] = change.query
    came = {change.name for change in changes if not isinstance(change, Drop)}
    known = replace(manifest, queries=tuple(s for s in catalog.states if s.name not in new | gone))
    after = reconcile(
        catalog.streams,
        tuple(queries.values()),
        known,
        sources_by_name=catalog.sources_by_name,
        stations=catalog.stations,
        eddies=catalog.eddies,
        submitted=((catalog.submitted - gone) | came) & queries.keys(),
    )
    states = (replace(s, status=QueryStatus.DROPPED) if s.name in dropped else s for s in after.states)
    forgotten = (catalog.forgotten | dropped) - came
    after = replace(after, states=tuple(states), forgotten=forgotten)
    return replace(after, content=after.to_json())


def _without(catalog: Catalog, names: set[str]) -> Catalog:
    """The catalog when queries go and none comes: rows come as before, so that ingest need not change."""
    gone = catalog.dropped()
    left = [s for s in catalog.states if s.name not in gone]
    after = replace(
        catalog,
        queries=tuple(q for q in catalog.queries if q.name not in gone),
        states=tuple(replace(s, status=QueryStatus.DROPPED) if s.name in names else s for s in left),
        retired=catalog.retired | gone,
        forgotten=catalog.forgotten | names,
        submitted=catalog.submitted - gone,
    )
    return replace(after, content=after.to_json())


def _fits(query: Query, catalog: Catalog, manifest: Manifest) -> bool:
    """Whether a query can go on with the state of the one that it replaces."""
    try:
        reconcile(catalog.streams, [query], manifest)
    except StateError:
        return False
    return True


def queries_at_start(
    declared: Sequence[Query], manifest: Manifest | None, streams: Mapping[str, Stream]
) -> tuple[list[Query], frozenset[str]]:
    """The queries that a session begins with, and the names of those that it was not told of.

    What came while an earlier session ran goes on by itself, and what was dropped then stays so.
    """
    if manifest is None:
        return list(declared), frozenset()
    last = {s.name for s in manifest.queries if s.status is QueryStatus.DROPPED}
    gone = set(manifest.catalog.get("dropped", ())) - last
    kept = [query for query in declared if query.name not in gone]
    known = {query.name for query in kept}
    came = [query for query in _submitted(manifest, streams) if query.name not in known]
    return kept + came, frozenset(query.name for query in came)


def _submitted(manifest: Manifest, streams: Mapping[str, Stream]) -> list[Query]:
    found = []
    for name, known in manifest.catalog.get("queries", {}).items():
        if known.get("submitted"):
            found.append(bind_query(name, known["text"], streams, sink=_sink(known.get("sink"))))
    return found


def _sink(known: Mapping[str, Any] | None) -> Connector | None:
    if known is None:
        return None
    options = tuple((str(key), str(value)) for key, value in known["options"])
    return Connector(known["format"], known["path"], options)
