"""Streams and queries of a session, reconciled with what its checkpoint remembers of them."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from anabranch.errors import StateError
from anabranch.plan.graph import JoinGraph
from anabranch.plan.inputs import Layout, RoutedQuery, layout_of
from anabranch.plan.local_plan import compile_plan
from anabranch.plan.logical import AGGREGATES_ALIAS, Column, Query, Stream
from anabranch.plan.states.fragments import with_shared_states
from anabranch.plan.stations.chosen_edges import edges_from
from anabranch.plan.tree import Plan, default_plan, parse_plan
from anabranch.queries.catalog import Catalog
from anabranch.queries.fingerprint import fields_kept, fingerprint
from anabranch.queries.grouping.groups import Group, Groups, running_queries
from anabranch.state import Manifest, QueryState


def reconcile(
    streams: Sequence[Stream],
    queries: Sequence[Query],
    manifest: Manifest | None,
    *,
    sources_by_name: bool = False,
    stations: bool = True,
    eddies: bool = False,
    submitted: Iterable[str] = (),
    sharing: str = "off",
    standing: Mapping[str, Query] | None = None,
    together: Iterable[Collection[str]] = (),
) -> Catalog:
    """Accept changes that leave the meaning of the kept state alone; refuse the others.

    Safe: lateness, source path and options, sinks, the number of sites, queries added (they start
    empty) or removed, SELECT lists that take less than before. Not safe: a changed window,
    predicate or key, a column that was not kept, another time column.

    Parameters
    ----------
    stations
        Whether new joins without a key that all streams share run at stations; those that the checkpoint
        knows go on as they did, for their state is laid out so.
    eddies
        Whether new joins of three streams and more on one key do.
    submitted
        Queries that came while a session ran.
    sharing
        Whether new queries form groups, and of which kind; those that the checkpoint knows go on in the group
        they are in.
    standing
        Representatives of a session that runs.
    together
        Names of new queries that form a group in any case.
    """
    known = {q.name for q in manifest.queries} if manifest else set()
    remembered: Mapping[str, Any] = manifest.catalog if manifest else {}
    for stream in streams:
        _check_stream(stream, remembered.get("streams", {}).get(stream.name))
    running, groups = _running(
        queries, streams, manifest, sharing=sharing, standing=standing, together=together
    )
    states = _states(running, manifest)
    as_before = {n: q for n, q in remembered.get("queries", {}).items() if n in known}
    layout = _layout(running, states, as_before, stations=stations, eddies=eddies)
    plans = tuple(compile_plan(layout, routed, _default_plan(routed, as_before)) for routed in layout.queries)
    catalog = Catalog(
        tuple(streams),
        running,
        states,
        layout,
        plans,
        sources_by_name,
        stations,
        eddies,
        sharing,
        groups,
        forgotten=frozenset(remembered.get("dropped", ())),
        submitted=frozenset(submitted),
    )
    return replace(catalog, content=catalog.to_json())


def _running(
    queries: Sequence[Query],
    streams: Sequence[Stream],
    manifest: Manifest | None,
    *,
    sharing: str,
    standing: Mapping[str, Query] | None,
    together: Iterable[Collection[str]],
) -> tuple[tuple[Query, ...], Groups]:
    """The queries that run, representatives in the place of their members, and the groups."""
    groups = manifest.catalog.get("groups", {}) if manifest else {}
    return running_queries(
        queries,
        streams,
        {name: Group.from_json(told) for name, told in groups.items()},
        known={q.name: q for q in manifest.queries} if manifest else {},
        sharing=sharing,
        batch=_next_batch(manifest),
        standing=standing,
        together=together,
    )


def _next_batch(manifest: Manifest | None) -> int:
    return manifest.batch + 1 if manifest else 0


def _states(running: Iterable[Query], manifest: Manifest | None) -> tuple[QueryState, ...]:
    """Of every query and of every member of a group: as before, if it may go on, or of one that begins."""
    known = {q.name: q for q in manifest.queries} if manifest else {}
    remembered: Mapping[str, Any] = manifest.catalog if manifest else {}
    states = []
    for query in {q.name: q for r in running for q in (r, *r.answered)}.values():
        before = known.get(query.name)
        if before is None:
            states.append(QueryState(query.name, fingerprint(query), _next_batch(manifest)))
            continue
        _check_query(query, before, remembered["queries"][query.name])
        states.append(before)
    return tuple(states)


def _layout(
    running: Sequence[Query],
    states: Iterable[QueryState],
    as_before: Mapping[str, Any],
    *,
    stations: bool,
    eddies: bool,
) -> Layout:
    """Where rows go: of queries that go on, where they went."""
    at_stations = {
        query.name: bool(as_before[query.name].get("stations"))
        if query.name in as_before
        else (eddies if JoinGraph.of(query).routing_classes() else stations)
        for query in running
    }
    laid = {name: int(query.get("laid", 0)) for name, query in as_before.items()}
    began = {state.name: state.since for state in states}
    chosen = {q.name: edges_from(q, as_before.get(q.name, {}).get("edges", ())) for q in running}
    return with_shared_states(layout_of(running, began, at_stations, laid, chosen))


def _default_plan(routed: RoutedQuery, remembered: Mapping[str, Any]) -> Plan:
    """The plan of sites that have none of their own: manifests do not name it, so that it must stay."""
    before = remembered.get(routed.query.name, {}).get("plan")
    return default_plan(routed.graph) if before is None else parse_plan(before)


def known_streams(manifest: Manifest) -> dict[str, Stream]:
    """The streams of a checkpoint, without their sources."""
    return {
        name: Stream(
            name,
            tuple(Column(column, kind) for column, kind in known["columns"].items()),
            known["time"],
            known["lateness_us"],
        )
        for name, known in manifest.catalog["streams"].items()
    }


def _check_query(query: Query, before: QueryState, remembered: Mapping[str, Any]) -> None:
    advice = "give the changed query a new name, or start with a new checkpoint"
    if fingerprint(query) != before.fingerprint:
        raise StateError(
            f"query {query.name!r} has other streams, windows or predicates than its checkpoint, so its "
            f"state would not fit: {advice}. The checkpoint knows: {remembered['text']}"
        )
    kept = {(alias, field) for alias, fields in remembered["fields"].items() for field in fields}
    missing = sorted((a, f) for a, fields in fields_kept(query).items() for f in fields if (a, f) not in kept)
    if missing:
        wanted = ", ".join(
            field if alias == AGGREGATES_ALIAS else f"{alias}.{field}" for alias, field in missing
        )
        raise StateError(f"query {query.name!r} now selects {wanted}, which its state did not keep: {advice}")


def _check_stream(stream: Stream, before: Mapping[str, Any] | None) -> None:
    if before is None:
        return
    if before["time"] != stream.time:
        raise StateError(
            f"stream {stream.name!r} took its time from column {before['time']!r} so far, now from "
            f"{stream.time!r}: keep the column, or start with a new checkpoint"
        )
    types = {c.name: c.type for c in stream.columns}
    for name, kind in before["columns"].items():
        if types.get(name, kind) != kind:
            raise StateError(
                f"column {name!r} of stream {stream.name!r} was {kind} so far and is {types[name]} now: "
                f"CAST it back to {kind} at the source, or start with a new checkpoint"
            )
