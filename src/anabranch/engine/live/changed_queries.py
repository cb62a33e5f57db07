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
from anabranch.engine.step.manifests.side_files import catalog_log
from anabranch.engine.step.manifests.step_outcome import StepOutcome
from anabranch.queries.catalog import Catalog
from anabranch.queries.changes import changed
from anabranch.queries.turnover import Add, Drop, Replace
from anabranch.state import BlockMeta


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
    if rows_owed(asked, before.catalog, manifest.blocks):
        asked = ()  # the next step lets them in, before any new row
    if not asked and not before.catalog.dropped():
        return outcome
    catalog = changed(before.catalog, [a.change for a in asked], manifest)
    mail = (*manifest.mail, *((a.letter, "") for a in asked if a.letter is not None))
    outcome = with_catalog(replace(outcome, manifest=replace(manifest, mail=mail)), catalog, is_over)
    events = (*outcome.events, *_told(asked, outcome.prepared.catalog, manifest.batch))
    return replace(outcome, changes=asked, events=events)


def rows_owed(asked: Iterable[Asked], catalog: Catalog, blocks: Iterable[BlockMeta]) -> bool:
    """Whether rows wait to enter the state of a query that is to go: their results are still its own."""
    going = [one.change.name for one in asked if not isinstance(one.change, Add)]
    waiting = {block.state for block in blocks if block.state.is_waiting} if going else set()
    if not waiting:
        return False
    running = {at for name in going for at in (name, *catalog.groups_with(name))}
    states = {node.state for p in catalog.plans if p.query.name in running for node in p.nodes()}
    return any(state.waiting in waiting for state in states)


def with_catalog(outcome: StepOutcome, catalog: Catalog, is_over: IsOver) -> StepOutcome:
    """The outcome of a step with other queries, or other ways to answer them."""
    before, manifest = outcome.prepared, outcome.manifest
    stays = catalog.layout is before.catalog.layout
    prepared = before.with_members(catalog, is_over) if stays else Prepared.of(catalog, is_over)
    catalog = prepared.catalog
    tracks = _tracks(outcome.decisions.tracks, prepared, catalog, manifest.batch, manifest.sites)
    content, log = catalog_log(catalog, manifest, manifest.stamp)
    return replace(
        outcome,
        manifest=replace(
            manifest,
            queries=catalog.states,
            catalog=content,
            catalog_log=log,
            tracks=tracks.beside(prepared.compiled.defaults).to_json(),
        ),
        prepared=prepared,
        state=outcome.state if stays else _state(outcome.state, prepared),
        decisions=replace(outcome.decisions, tracks=tracks),
    )


def _state(state: BoundaryState, prepared: Prepared) -> BoundaryState:
    """What a new session would remember of the joins that there are now."""
    after = BoundaryState.from_json(state.to_json(), prepared.observation.joins)
    return replace(after, homes=state.homes, groups=state.groups)


def _tracks(tracks: Tracks, prepared: Prepared, catalog: Catalog, batch: int, sites: int) -> Tracks:
    """The tracks of queries that stay, and those of queries that begin."""
    defaults, states = prepared.compiled.defaults, catalog.state_of
    new = {name for name in defaults if name in states and states[name].since > batch}
    stay = {query: plan for query, plan in defaults.items() if query not in new}
    return tracks.for_queries(stay, sites).for_queries(defaults, sites)


def _told(asked: Iterable[Asked], catalog: Catalog, batch: int) -> list[Event]:
    states = catalog.state_of
    events = []
    for one in asked:
        name = one.change.name
        if isinstance(one.change, Drop):
            message = f"query {name} was dropped: batch {batch} was its last"
            events.append(Event(batch, EventKind.QUERY_DROPPED, message, {"query": name}))
        elif name in states:
            since = states[name].since
            goes_on = isinstance(one.change, Replace) and since <= batch
            how = "goes on with another text and its state" if goes_on else f"counts from batch {batch + 1}"
            data = {"query": name, "since": since}
            events.append(Event(batch, EventKind.QUERY_ADDED, f"query {name} {how}", data))
    return events
