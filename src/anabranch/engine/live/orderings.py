"""Joins that change between a tree and stations with a step: what they keep gets other addresses.

The manifest of the step has the new layout and the blocks of the old one; the next step gives their rows new
addresses before it works on anything (`engine.task.arrival.readdress`). A crash in between repeats that step.

A join changes when nothing of it is under way: none of its rows waits, no older track of it ends, none of
its states is still to be computed, and no row of it has copies. Until then it goes on as it is.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from anabranch.adapt.boundary.boundary_state import BoundaryState
from anabranch.adapt.eddy.layout_choice import Way
from anabranch.adapt.events import Event, EventKind
from anabranch.adapt.tracks.tracks import Migration, Track
from anabranch.engine.boundary.observation import IsOver
from anabranch.engine.live.prepared import Prepared
from anabranch.engine.step.manifests.side_files import catalog_log
from anabranch.engine.step.manifests.step_outcome import StepOutcome
from anabranch.exchange.partition_set import EVERY, PartitionSet
from anabranch.plan.cost.migration_cost import Strategy
from anabranch.plan.inputs import RoutedQuery, tree_of
from anabranch.plan.local_plan import LocalPlan
from anabranch.plan.stations.chosen_edges import edges_json
from anabranch.plan.stations.join_tree import EdgeEnds
from anabranch.plan.stations.readdressing import Readdressing, follows, plan_along, to_stations, to_tree
from anabranch.plan.stations.spanning_trees import ends_of
from anabranch.plan.tree import parse_plan
from anabranch.queries.catalog import Catalog
from anabranch.queries.reconcile import reconcile
from anabranch.state import Manifest


def with_orderings(
    outcome: StepOutcome,
    wanted: Mapping[str, bool],
    trees: Mapping[str, tuple[EdgeEnds, ...]],
    is_over: IsOver,
) -> tuple[StepOutcome, tuple[Migration, ...]]:
    """The outcome of a step after which joins are laid out otherwise, and plans that have to come first.

    Parameters
    ----------
    wanted
        By query, whether it is to run at stations.
    trees
        By query with cycles, the edges that its stations are to have. Where they have others, it becomes a
        join tree for a step, and is wanted at stations then.
    """
    wanted = {**wanted, **dict.fromkeys(_other_trees(outcome, trees), False)}
    catalog, either_way = outcome.prepared.catalog, outcome.prepared.observation.either_way
    changing: list[RoutedQuery] = []
    migrations: list[Migration] = []
    held: dict[str, str] = {}
    for routed in catalog.layout.queries if wanted else ():
        name, is_at_stations = routed.query.name, routed.tree is not None
        if wanted.get(name, is_at_stations) == is_at_stations or name not in either_way:
            continue
        if name in catalog.failed():
            continue
        if (why := _under_way(routed, outcome)) is not None:
            held[name] = why
            continue
        first = [] if is_at_stations else _plans_first(routed, outcome, trees)
        if first == []:
            changing.append(routed)
        else:
            migrations += first or []
            held[name] = "its plan changes first" if first else "its plan along the edges kept too much"
    outcome = _held_up(outcome, held, wanted)
    if not changing:
        return outcome, tuple(migrations)
    return _relaid(outcome, changing, trees, is_over), tuple(migrations)


def _other_trees(outcome: StepOutcome, trees: Mapping[str, tuple[EdgeEnds, ...]]) -> list[str]:
    """Queries at stations that are to have other ones."""
    queries = outcome.prepared.catalog.layout.queries if trees else ()
    return [
        routed.query.name
        for routed in queries
        if routed.tree is not None and {*trees.get(routed.query.name, ())} - {*ends_of(routed.tree)}
    ]


def _held_up(outcome: StepOutcome, held: Mapping[str, str], wanted: Mapping[str, bool]) -> StepOutcome:
    """Take note of what holds up changes; the first reason is an event."""
    before = outcome.state.layouts.held
    if held == before:
        return outcome
    batch, new = outcome.manifest.batch, held.keys() - before.keys()
    told = [_postponed(batch, name, held[name], stations=wanted[name]) for name in sorted(new)]
    state = replace(outcome.state, layouts=replace(outcome.state.layouts, held=held))
    manifest = replace(outcome.manifest, controller=state.to_json())
    return replace(outcome, state=state, manifest=manifest, events=(*outcome.events, *told))


def _under_way(routed: RoutedQuery, outcome: StepOutcome) -> str | None:
    """What of a join is under way, so that it cannot change; None if nothing is."""
    name, tracks, blocks = routed.query.name, outcome.decisions.tracks, outcome.manifest.blocks
    states = {node.state for node in _plan_of(outcome.prepared.catalog, name).nodes()}
    waiting = {state.waiting for state in states if state}
    # Rows that aligned routing has copied are in several partitions.
    is_pinned = routed.tree is None and not routed.routing
    at = {p for b in blocks if b.state in states for p, _ in b.partitions} if is_pinned else set()
    reasons = {
        "a query that was dropped is not forgotten yet": bool(outcome.prepared.catalog.dropped()),
        "rows of it wait for a later step": any(b.state in waiting for b in blocks),
        "a parallel track of it has not ended": name in {t.query for t in tracks.ending},
        "states of it are still to be computed": name in {r.query for r in tracks.rebuilds},
        "partitions move to other sites": bool(tracks.transfers),
        "another change is not finished": bool(tracks.relaid),
        "hot keys of it are spread": any(states & {*key.states} for key in outcome.state.hot.keys),
        "copies that segments of time have made are left": len(at) > 1,
    }
    return next((why for why, holds in reasons.items() if holds), None)


def _plans_first(
    routed: RoutedQuery, outcome: StepOutcome, trees: Mapping[str, tuple[EdgeEnds, ...]]
) -> list[Migration] | None:
    """Changes of plans without which a tree is no order of stations; None where these would keep too much."""
    name = routed.query.name
    tree = tree_of(routed.query, routed.graph, trees.get(name) or routed.edges)
    assert tree is not None
    plans = {(track.plan, track.since) for track in _tracks_used(routed, outcome)}
    if len(plans) <= 1 and all(follows(tree, parse_plan(plan)) for plan, _ in plans):
        return []
    if any(left.split(" ", 2)[1] == name for left in outcome.state.plans.abandoned):
        return None
    plan, sites = str(plan_along(tree)), outcome.decisions.partition_map.sites
    return [Migration(name, site, plan, Strategy.MOVING_STATE) for site in range(sites)]


def _tracks_used(routed: RoutedQuery, outcome: StepOutcome) -> list[Track]:
    """Tracks that have rows."""
    here, name = outcome.decisions.partition_map, routed.query.name
    states = {node.state for node in _plan_of(outcome.prepared.catalog, name).nodes()}
    blocks = (b for b in outcome.manifest.blocks if b.state in states)
    having = PartitionSet.of(p for b in blocks for p, _ in b.partitions)
    by_site = enumerate(here.partitions_by_site())
    return [t for s, owned in by_site for t in outcome.decisions.tracks.newest(name, s, owned & having)]


def _relaid(
    outcome: StepOutcome,
    changing: Sequence[RoutedQuery],
    trees: Mapping[str, tuple[EdgeEnds, ...]],
    is_over: IsOver,
) -> StepOutcome:
    before, manifest, decisions = outcome.prepared, outcome.manifest, outcome.decisions
    catalog = _catalog(before.catalog, manifest, {r.query.name: _entry(r, trees) for r in changing})
    prepared = Prepared.of(catalog, is_over, like=before)
    defaults = prepared.compiled.defaults
    tracks = decisions.tracks.for_queries(defaults, decisions.partition_map.sites)
    moves: list[Readdressing] = []
    for routed in changing:
        name = routed.query.name
        after = _plan_of(catalog, name)
        if routed.tree is not None:
            moves += to_tree(_plan_of(before.catalog, name), after, catalog.layout)
            tracks = tracks.recomputed(name, decisions.partition_map, EVERY)
        elif used := _tracks_used(routed, outcome):
            moves += to_stations(before.compiled.compiler.plan_of(used[0]), after, catalog.layout)
    tracks = replace(tracks, relaid=tuple(dict.fromkeys(moves)))
    content, log = catalog_log(catalog, None, manifest.stamp)
    return replace(
        outcome,
        manifest=replace(
            manifest,
            queries=catalog.states,
            catalog=content,
            catalog_log=log,
            tracks=tracks.beside(defaults).to_json(),
        ),
        prepared=prepared,
        state=BoundaryState.from_json(outcome.state.to_json(), prepared.observation.joins),
        decisions=replace(decisions, tracks=tracks),
        events=(*outcome.events, *(_told(manifest.batch, routed) for routed in changing)),
    )


def _entry(routed: RoutedQuery, trees: Mapping[str, tuple[EdgeEnds, ...]]) -> dict[str, Any]:
    """What the catalog is to say of a query that changes between a tree and stations."""
    edges = trees.get(routed.query.name) or routed.edges
    tree = tree_of(routed.query, routed.graph, edges)
    # A plan along the edges, so that the way to the stations is open.
    plan = str(plan_along(tree)) if edges and tree is not None and routed.tree is not None else None
    stations = routed.tree is None
    return {"stations": stations, "plan": plan, "edges": edges_json(routed.query, edges)}


def _catalog(catalog: Catalog, manifest: Manifest, entries: Mapping[str, Mapping[str, Any]]) -> Catalog:
    """The catalog with some queries laid out otherwise."""
    known = dict(manifest.catalog["queries"])
    for name, entry in entries.items():
        known[name] = {**known[name], **entry, "laid": manifest.number + 1}
    after = reconcile(
        catalog.streams,
        catalog.answered,
        replace(manifest, queries=catalog.states, catalog={**manifest.catalog, "queries": known}),
        sources_by_name=catalog.sources_by_name,
        stations=catalog.stations,
        eddies=catalog.eddies,
        submitted=catalog.submitted,
        sharing=catalog.sharing,
    )
    after = replace(after, forgotten=catalog.forgotten)
    return replace(after, content=after.to_json())


def _plan_of(catalog: Catalog, name: str) -> LocalPlan:
    return next(plan for plan in catalog.plans if plan.query.name == name)


def _postponed(batch: int, query: str, why: str, *, stations: bool) -> Event:
    how = "at stations" if stations else "as a join tree on one site"
    message = f"query {query} is to run {how}, and has to wait: {why}"
    return Event(batch, EventKind.ORDER_POSTPONED, message, {"query": query, "why": why})


def _told(batch: int, routed: RoutedQuery) -> Event:
    name = routed.query.name
    how = "at stations on all sites, each row in its own order" if routed.tree is None else "as a join tree"
    way = Way.EDDY if routed.tree is None else Way.ONE_SITE
    data = {"query": name, "stations": routed.tree is None, "way": str(way)}
    return Event(batch, EventKind.ORDER_CHANGED, f"query {name} runs {how} from the next step on", data)
