"""Choice of plans: reports become join statistics, and the policy proposes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from anabranch.adapt.boundary.observed import Observed
from anabranch.adapt.events import Event, EventKind
from anabranch.adapt.measures.site_report import JoinReport, SiteReport
from anabranch.adapt.plans.edge_statistics import EdgeReport
from anabranch.adapt.plans.plan_policy import PlanPolicySettings, PlanProposal, PlanView, propose_plans
from anabranch.adapt.plans.plan_state import PlanState
from anabranch.adapt.plans.row_bytes import row_bytes
from anabranch.adapt.plans.sampling_schedule import Rate
from anabranch.adapt.tracks.tracks import Migration
from anabranch.exchange.partition_map import PartitionMap
from anabranch.plan.cost.estimates import Estimates
from anabranch.plan.cost.migration_cost import Preference, Strategy
from anabranch.plan.cost.plan_cost import Calibration, Work, WorkObserved
from anabranch.plan.cost.probe_counts import plan_block_probes
from anabranch.plan.cost.relocation_path import RelocationPath
from anabranch.plan.cost.state_room import ANY_ROOM, StateRoom
from anabranch.plan.search.candidates import canonical
from anabranch.plan.tree import parse_plan

ABANDONED_BATCHES = 1_000
"""For so long a plan that would have kept too much is not proposed again."""

PlanChoice = tuple[PlanState, tuple[Migration, ...], tuple[Event, ...]]
"""The state after it, sites that change plans, and the reasons."""


def choose_plans(state: PlanState, observed: Observed) -> PlanChoice:
    """Decide which sites change plans before the next batch."""
    batch, reports, elapsed_s = observed.batch, observed.sites, observed.elapsed_s
    state = replace(
        state,
        copied_rows=state.copied_rows + sum(r.copied_rows for r in reports),
        copy_s=state.copy_s + sum(r.copy_s for r in reports),
    )
    if not any(r.joins for r in reports) or elapsed_s <= 0:
        return state, (), ()
    state = replace(state, edges=state.edges.copy())
    for report in reports:
        for query, join in report.joins.items():
            state.edges.add(report.site, query, _edge_report(join, elapsed_s))
    rates = _rates(reports, elapsed_s)
    if not state.sampling.is_due(batch):
        return replace(state, sampling=state.sampling.after(batch, rates, busy=False)), (), ()
    abandoned = {key: at for key, at in state.abandoned.items() if batch - at < ABANDONED_BATCHES}
    state = replace(state, abandoned=abandoned)
    views = _views(state, observed)
    state = replace(state, calibration=_calibrated(state.calibration, views, reports))
    settings = PlanPolicySettings(preference=Preference(observed.settings.migration))
    policy, proposals, outcomes = propose_plans(views, state.policy, settings=settings, costs=state.costs)
    busy = settings.preference is not Preference.OFF and (bool(proposals) or policy.is_busy)
    state = replace(state, policy=policy, sampling=state.sampling.after(batch, rates, busy=busy))
    migrations = tuple(Migration(p.query, p.site, str(p.new), p.strategy) for p in proposals)
    judged = (Event(batch, EventKind.BENEFIT_OBSERVED, str(o), o.to_json()) for o in outcomes)
    return state, migrations, (*judged, *(_told(batch, proposal) for proposal in proposals))


def choose_strategy(state: PlanState, observed: Observed, after: PartitionMap) -> Strategy:
    """How partitions that move are to change sites: as users set it, or what is predicted to be cheaper."""
    wanted, copies, joins = observed.settings.rebalance, observed.settings.copies, observed.joins
    if wanted in ("mslb", "ptlb"):
        return Strategy.MOVING_STATE if wanted == "mslb" else Strategy.PARALLEL_TRACK
    before = observed.partition_map
    sites = min(before.sites, after.sites)
    moves = {
        (source, target): len(moved) / len(before.partitions_of(source))
        for (source, target), moved in before.moves_to(after).items()
        if max(source, target) < sites
    }
    path, by_moving = RelocationPath(), joins.by_moving
    for query, plans in observed.tracks.plans.items():
        routed = joins.queries.get(query)
        if routed is None or query in by_moving:
            continue  # its state is moved in any case
        if not (copies or any(plans[s] != plans[t] for s, t in moves)):
            continue  # nothing has to be copied or computed
        known = {s: found for s in range(sites) if (found := state.statistics(joins, query, s))}
        path.add(
            {site: parse_plan(plan) for site, plan in enumerate(plans)},
            moves,
            graph=routed.graph,
            known=known,
            costs=state.costs,
            lateness_s=joins.lateness_s[query],
            copy_row_s=state.copy_row_s if copies else 0.0,
        )
    return path.cheaper


def _views(state: PlanState, observed: Observed) -> list[PlanView]:
    """What the policy gets to see, of joins that some site has reported about: those that failed do not."""
    seen = {
        (report.site, query): join.busy_s / observed.elapsed_s
        for report in observed.sites
        for query, join in report.joins.items()
        if join.settled
    }
    running = {query for report in observed.sites for query in report.joins}
    views = [
        view
        for query, plans in observed.tracks.plans.items()
        if query in running
        for site in range(len(plans))
        if (view := _view(state, observed, query, site=site, seen=seen)) is not None
    ]
    return [replace(view, room=_room(state, observed, view)) for view in views]


def _view(
    state: PlanState, observed: Observed, query: str, *, site: int, seen: Mapping[tuple[int, str], float]
) -> PlanView | None:
    routed = observed.joins.queries.get(query)
    statistics = None if routed is None else state.statistics(observed.joins, query, site)
    if routed is None or statistics is None:
        return None
    owned = observed.partition_map.partitions_of(site)
    ending = (t for t in observed.tracks.ending if t.query == query and t.site == site)
    return PlanView(
        site,
        query,
        routed.graph,
        parse_plan(observed.tracks.plans[query][site]),
        statistics,
        observed.joins.lateness_s[query],
        seen.get((site, query)),
        migrating=any(t.partitions & owned for t in ending),  # others have left: no plan of theirs
    )


def _room(state: PlanState, observed: Observed, view: PlanView) -> StateRoom:
    most = observed.settings.work_memory
    if most is None:
        return ANY_ROOM
    whose = f"{view.site} {view.query} "
    plans = (key.removeprefix(whose) for key in state.abandoned if key.startswith(whose))
    abandoned = frozenset(str(canonical(parse_plan(plan), view.graph)) for plan in plans)
    routed = observed.joins.queries[view.query]
    return StateRoom(most, row_bytes(observed.joins.layout, routed, observed.blocks), abandoned)


def _calibrated(
    calibration: Calibration, views: Sequence[PlanView], reports: Sequence[SiteReport]
) -> Calibration:
    """Learn what work takes; probes of blocks are those that the statistics lead to expect."""
    joins = {(report.site, query): join for report in reports for query, join in report.joins.items()}
    for view in views:
        join = joins.get((view.site, view.query))
        if join is not None and join.settled:
            block_probes = plan_block_probes(view.plan, Estimates(view.graph, view.statistics))
            work = Work(join.probes, join.pairs, join.inserts, block_probes)
            calibration = calibration.add(WorkObserved(work, join.busy_s))
    return calibration


def _edge_report(join: JoinReport, elapsed_s: float) -> EdgeReport:
    return EdgeReport(elapsed_s, join.new_rows, join.state_rows, join.edges)


def _rates(reports: Sequence[SiteReport], elapsed_s: float) -> dict[str, Rate]:
    """What every batch tells of its joins: rows of references, and pairs found."""
    counts: dict[str, int] = {}
    for report in reports:
        for query, join in report.joins.items():
            counts[f"{query} {report.site} pairs"] = join.pairs
            counts |= {f"{query} {report.site} of {alias}": rows for alias, rows in join.new_rows.items()}
    return {name: Rate(count / elapsed_s, count) for name, count in counts.items()}


def _told(batch: int, proposal: PlanProposal) -> Event:
    message = (
        f"query {proposal.query} at site {proposal.site}: {proposal.old} → {proposal.new} "
        f"by {proposal.strategy}: {proposal.reason}"
    )
    return Event(batch, EventKind.PLAN_CHANGED, message, proposal.to_json())
