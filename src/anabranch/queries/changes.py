"""Queries that come and go while a session runs: what a user asks for, and the catalog after it.

A query that comes counts from the batch after the step that took it in. One that goes stays in the catalog
for one step more, as dropped: a crash before its sink has the results of its last step must not lose them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from anabranch.errors import ConfigError, StateError
from anabranch.language.flow import bind_query
from anabranch.plan.logical import Connector, Query, Stream
from anabranch.queries.catalog import Catalog
from anabranch.queries.reconcile import reconcile
from anabranch.queries.turnover import Add, Change, Drop, Replace, Turned, turned_over
from anabranch.state import Manifest, QueryStatus

ALL_LOOKED_AT = 100
"""With more queries than this, nobody looks whether the one that goes is the last."""


def check_change(change: Change, catalog: Catalog, pending: Mapping[str, Change]) -> None:
    """Refuse a change that makes no sense after those that are under way, of which the last counts."""
    state, other = catalog.state_of.get(change.name), pending.get(change.name)
    there = state is not None and state.status is not QueryStatus.DROPPED
    there = (there and change.name not in catalog.groups) if other is None else not isinstance(other, Drop)
    if isinstance(change, Add):
        if there:
            raise ConfigError(
                f"there is a query {change.name!r} already: choose another name, or use run.replace"
            )
        if isinstance(other, Drop):
            raise ConfigError(f"query {change.name!r} is just being dropped: add it after the next batch")
        return
    if not there:
        listed = ", ".join(sorted(_names(catalog, pending))[:20]) or "none"
        raise ConfigError(f"there is no query {change.name!r}: choose from {listed}")
    if isinstance(change, Replace):
        _check_outputs(change.query, catalog, pending)
    elif len(catalog.states) <= ALL_LOOKED_AT and _names(catalog, pending) == {change.name}:
        raise ConfigError(f"{change.name!r} is the only query: stop the session instead of dropping it")


def _names(catalog: Catalog, pending: Mapping[str, Change]) -> set[str]:
    """Queries that will be there."""
    there = {s.name for s in catalog.states if s.status is not QueryStatus.DROPPED} - catalog.groups.keys()
    going = {name for name, other in pending.items() if isinstance(other, Drop)}
    return (there - going) | (pending.keys() - going)


def _check_outputs(query: Query, catalog: Catalog, pending: Mapping[str, Change]) -> None:
    other = pending.get(query.name)
    known = catalog.answered_by(query.name) if other is None or isinstance(other, Drop) else other.query
    assert known is not None
    before = [(o.name, o.type) for o in known.outputs]
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
    turned = turned_over(catalog, changes, batch=manifest.batch + 1)
    if turned.rest:
        return _laid_out_anew(turned, manifest)
    return turned.catalog


def _laid_out_anew(turned: Turned, manifest: Manifest) -> Catalog:
    """The catalog after a change for which rows must come otherwise than before."""
    catalog = turned.catalog
    queries = {q.name: q for q in catalog.answered}
    new: set[str] = set()
    for change in turned.rest:
        if isinstance(change, Add) or not _fits(change.query, catalog, manifest):
            new.add(change.name)
        queries[change.name] = change.query
    came = {change.name for change in turned.rest}
    states = tuple(s for s in catalog.states if s.name not in new)
    known = replace(manifest, queries=states, catalog=catalog.content)
    after = reconcile(
        catalog.streams,
        tuple(queries.values()),
        known,
        sources_by_name=catalog.sources_by_name,
        stations=catalog.stations,
        eddies=catalog.eddies,
        submitted=(catalog.submitted | came) & queries.keys(),
        sharing=catalog.sharing,
        standing={q.name: q for q in catalog.queries if q.split is not None},
    )
    replaced = {c.name for c in turned.rest if isinstance(c, Replace)} - catalog.submitted
    after = replace(after, forgotten=catalog.forgotten | replaced)
    return replace(after, content=after.to_json(), changed=None)


def _fits(query: Query, catalog: Catalog, manifest: Manifest) -> bool:
    """Whether a query can go on with the state of the one that it replaces."""
    if catalog.state_of.get(query.name) is None or catalog.group_with(query.name) is not None:
        return False
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
