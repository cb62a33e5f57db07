"""Queries that come and go with a step: its outcome with another catalog, and all that follows from it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from anabranch.adapt.boundary.boundary_state import BoundaryState
from anabranch.adapt.events import Event, EventKind
from anabranch.adapt.tracks.tracks import Tracks
from anabranch.engine.boundary.observation import IsOver
from anabranch.engine.boundary.requests import Asked
from anabranch.engine.live.prepared import Prepared
from anabranch.engine.step.manifests.side_files import catalog_file
from anabranch.engine.step.manifests.step_outcome import StepOutcome
from anabranch.queries.catalog import Catalog
from anabranch.queries.changes import changed
from anabranch.queries.turnover import Drop, Replace


def with_changes(
    outcome: StepOutcome,
    asked: tuple[Asked, ...],
    is_over: IsOver,
    *,
    refused: tuple[tuple[str, str], ...] = (),
) -> StepOutcome:
    """The outcome of a step at whose end queries come and go. For all others nothing changes by it.

    Parameters
    ----------
    refused
        Letters that ask for what cannot be, and why.
    """
    if refused:
        batch = outcome.manifest.batch
        told = (Event(batch, EventKind.QUERY_REFUSED, why) for _, why in refused)
        manifest = replace(outcome.manifest, mail=refused)
        outcome = replace(outcome, manifest=manifest, events=(*outcome.events, *told))
    before, manifest = outcome.prepared, outcome.manifest
    if not asked and not before.catalog.dropped():
        return outcome
    catalog = changed(before.catalog, [a.change for a in asked], manifest)
    stays = catalog.layout is before.catalog.layout
    prepared = before.with_members(catalog, is_over) if stays else Prepared.of(catalog, is_over)
    catalog = prepared.catalog
    tracks = _tracks(outcome.decisions.tracks, prepared, catalog, manifest.batch, manifest.sites)
    content, file = catalog_file(catalog, None, manifest.stamp)
    return replace(
        outcome,
        manifest=replace(
            manifest,
            queries=catalog.states,
            catalog=content,
            catalog_file=file,
            mail=(*manifest.mail, *((a.letter, "") for a in asked if a.letter is not None)),
            tracks=tracks.beside(prepared.compiled.defaults).to_json(),
        ),
        prepared=prepared,
        state=outcome.state if stays else _state(outcome.state, prepared),
        decisions=replace(outcome.decisions, tracks=tracks),
        changes=asked,
        events=(*outcome.events, *_told(asked, catalog, manifest.batch)),
    )


def _state(state: BoundaryState, prepared: Prepared) -> BoundaryState:
    """What a new session would remember of the joins that there are now."""
    after = BoundaryState.from_json(state.to_json(), prepared.observation.joins)
    return replace(after, homes=state.homes)


def _tracks(tracks: Tracks, prepared: Prepared, catalog: Catalog, batch: int, sites: int) -> Tracks:
    """The tracks of queries that stay, and those of queries that begin."""
    new = {s.name for s in catalog.states if s.since > batch}
    defaults = prepared.compiled.defaults
    stay = {query: plan for query, plan in defaults.items() if query not in new}
    return tracks.for_queries(stay, sites).for_queries(defaults, sites)


def _told(asked: Iterable[Asked], catalog: Catalog, batch: int) -> list[Event]:
    since = {s.name: s.since for s in catalog.states}
    events = []
    for one in asked:
        name = one.change.name
        if isinstance(one.change, Drop):
            message = f"query {name} was dropped: batch {batch} was its last"
            events.append(Event(batch, EventKind.QUERY_DROPPED, message, {"query": name}))
        elif name in since:
            goes_on = isinstance(one.change, Replace) and since[name] <= batch
            how = "goes on with another text and its state" if goes_on else f"counts from batch {batch + 1}"
            data = {"query": name, "since": since[name]}
            events.append(Event(batch, EventKind.QUERY_ADDED, f"query {name} {how}", data))
    return events
