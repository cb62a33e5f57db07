"""Plans between two batches: reports become join statistics, the policy proposes, the tracks change.

All judgement is in `adapt` and `plan`; this drives those objects on Spark.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from anabranch.adapt.attention import Attention, Rate
from anabranch.adapt.edge_statistics import EdgeReport, EdgeSample, EdgeStatistics
from anabranch.adapt.events import AdaptEvent, EventKind
from anabranch.adapt.plan_memory import PlanPolicyState
from anabranch.adapt.plan_policy import (
    PlanPolicySettings,
    PlanProposal,
    PlanView,
    propose_plans,
)
from anabranch.adapt.tracks import Migration, Tracks, moves_between, partitions_of
from anabranch.exchange.partition_map import PartitionMap
from anabranch.plan.cost import Calibration, UnitCosts, Work, WorkObserved
from anabranch.plan.estimates import Estimates, window_seconds
from anabranch.plan.layout import Layout, RoutedQuery
from anabranch.plan.logical import Stream
from anabranch.plan.migration_cost import Strategy, Wish
from anabranch.plan.relocation_path import RelocationPath
from anabranch.plan.tree import parse_plan
from anabranch.plan.visits import plan_visits
from anabranch.runtime.reports import JoinReport, SiteReport

USUAL_COPY_S = 2e-7
"""Seconds to copy a row of state, at each end, before any was copied."""


class PlanAdaptation:
    """What a session knows of its joins, and what it decides about their plans.

    Parameters
    ----------
    remembered
        What `to_json` gave for the last manifest; empty in a new checkpoint.
    """

    def __init__(self, layout: Layout, streams: Sequence[Stream], remembered: Mapping[str, Any]) -> None:
        self._queries = {r.query.name: r for r in layout.queries if len(r.query.refs) > 1}
        self._lateness = {s.name: s.lateness_us / 1e6 for s in streams}
        self._edges = EdgeStatistics.from_json(
            {q: known for q, known in remembered.get("edges", {}).items() if q in self._queries}
        )
        self._state = PlanPolicyState.from_json(
            [m for m in remembered.get("policy", ()) if m["query"] in self._queries]
        )
        self._attention = Attention.from_json(remembered.get("attention", {}))
        self._copied_rows, self._copy_s = remembered.get("copied", (0.0, 0.0))
        calibration = remembered.get("calibration")
        self._calibration = Calibration() if calibration is None else Calibration.from_json(calibration)

    @property
    def costs(self) -> UnitCosts:
        """What work takes here, as far as it was observed."""
        return self._calibration.unit_costs()

    @property
    def copy_row_s(self) -> float:
        """Seconds to copy a row of state, at each end, as far as it was observed."""
        return self._copy_s / self._copied_rows / 2 if self._copied_rows else USUAL_COPY_S

    @property
    def unending(self) -> frozenset[str]:
        """Joins with a window that no row ever leaves."""
        windows = {name: window_seconds(r.query).values() for name, r in self._queries.items()}
        return frozenset(name for name, spans in windows.items() if math.inf in spans)

    def look(self, batch: int) -> int | None:
        """The number of the look at how streams meet that is due in a batch; None when none is."""
        return self._attention.taken if self._attention.is_due(batch) else None

    def after(
        self,
        batch: int,
        tracks: Tracks,
        partition_map: PartitionMap,
        reports: Sequence[SiteReport],
        elapsed_s: float,
        wish: str,
    ) -> tuple[tuple[Migration, ...], tuple[AdaptEvent, ...]]:
        """Take note of a batch and decide which sites change plans before the next one.

        Parameters
        ----------
        elapsed_s
            Event time that passed in the batch.
        wish
            The user's: `auto`, `moving_state`, `parallel_track` or `off`.
        """
        self._copied_rows += sum(r.copied_rows for r in reports)
        self._copy_s += sum(r.copy_s for r in reports)
        if not any(r.joins for r in reports) or elapsed_s <= 0:
            return (), ()
        observed: dict[tuple[int, str], float] = {}
        for report in reports:
            for query, join in report.joins.items():
                self._edges.add(report.site, query, _edge_report(join, elapsed_s))
                if join.settled:
                    observed[report.site, query] = join.busy_s / elapsed_s
        if not self._attention.is_due(batch):
            self._attention = self._attention.after(batch, _rates(reports, elapsed_s), busy=False)
            return (), ()
        running = {query for report in reports for query in report.joins}  # those that failed tell nothing
        views = [
            view
            for query, plans in tracks.plans.items()
            if query in running
            for site in range(len(plans))
            if (view := self._view(query, site, tracks, partition_map, observed)) is not None
        ]
        self._calibrate(views, reports)
        settings = PlanPolicySettings(wish=Wish(wish))
        self._state, proposals, outcomes = propose_plans(
            views, self._state, settings=settings, costs=self.costs
        )
        busy = settings.wish is not Wish.OFF and (bool(proposals) or self._state.is_busy)
        self._attention = self._attention.after(batch, _rates(reports, elapsed_s), busy=busy)
        migrations = tuple(Migration(p.query, p.site, str(p.new), p.strategy) for p in proposals)
        judged = (AdaptEvent(batch, EventKind.BENEFIT_OBSERVED, str(o), o.to_json()) for o in outcomes)
        return migrations, (*judged, *(_told(batch, proposal) for proposal in proposals))

    def rebalancing(
        self,
        tracks: Tracks,
        before: PartitionMap,
        after: PartitionMap,
        wish: str,
        *,
        copies: bool = False,
    ) -> Strategy:
        """How partitions that move are to change sites: the user's wish, or what is predicted to be cheaper.

        Parameters
        ----------
        copies
            Whether state that moves is copied, because sites share nothing.
        """
        if wish in ("mslb", "ptlb"):
            return Strategy.MOVING_STATE if wish == "mslb" else Strategy.PARALLEL_TRACK
        sites = min(before.sites, after.sites)
        moves = {
            (source, target): moved.bit_count() / partitions_of(before, source).bit_count()
            for (source, target), moved in moves_between(before, after).items()
            if max(source, target) < sites
        }
        path, unending = RelocationPath(), self.unending
        for query, plans in tracks.plans.items():
            routed = self._queries.get(query)
            if routed is None or query in unending:
                continue  # a state that never ends is moved in any case
            if not (copies or any(plans[s] != plans[t] for s, t in moves)):
                continue  # nothing has to be copied or computed
            windows = window_seconds(routed.query)
            known = {
                site: found
                for site in range(sites)
                if (found := self._edges.join_statistics(site, query, graph=routed.graph, windows_s=windows))
            }
            path.add(
                {site: parse_plan(plan) for site, plan in enumerate(plans)},
                moves,
                graph=routed.graph,
                known=known,
                costs=self.costs,
                lateness_s=self._lateness_s(routed),
                copy_row_s=self.copy_row_s if copies else 0.0,
            )
        return path.cheaper

    def to_json(self) -> dict[str, Any]:
        """What the manifest must remember."""
        return {
            "edges": self._edges.to_json(),
            "policy": self._state.to_json(),
            "attention": self._attention.to_json(),
            "calibration": self._calibration.to_json(),
            "copied": [self._copied_rows, self._copy_s],
        }

    def _view(
        self,
        query: str,
        site: int,
        tracks: Tracks,
        partition_map: PartitionMap,
        observed: Mapping[tuple[int, str], float],
    ) -> PlanView | None:
        routed = self._queries.get(query)
        if routed is None:
            return None
        statistics = self._edges.join_statistics(
            site, query, graph=routed.graph, windows_s=window_seconds(routed.query)
        )
        if statistics is None:
            return None
        owned = partitions_of(partition_map, site)
        ending = (t for t in tracks.ending if t.query == query and t.site == site)
        return PlanView(
            site,
            query,
            routed.graph,
            parse_plan(tracks.plans[query][site]),
            statistics,
            self._lateness_s(routed),
            observed.get((site, query)),
            migrating=any(t.partitions & owned for t in ending),  # others have left: no plan of theirs
        )

    def _calibrate(self, views: Sequence[PlanView], reports: Sequence[SiteReport]) -> None:
        """Learn what work takes; visits to blocks are those that the statistics lead to expect."""
        joins = {(report.site, query): join for report in reports for query, join in report.joins.items()}
        for view in views:
            join = joins.get((view.site, view.query))
            if join is not None and join.settled:
                visits = plan_visits(view.plan, Estimates(view.graph, view.statistics))
                work = Work(join.probes, join.pairs, join.inserts, visits)
                self._calibration = self._calibration.add(WorkObserved(work, join.busy_s))

    def _lateness_s(self, routed: RoutedQuery) -> float:
        return max(self._lateness[ref.stream] for ref in routed.query.refs)


def _edge_report(join: JoinReport, elapsed_s: float) -> EdgeReport:
    samples = {pair: EdgeSample(1, examined, found) for pair, (examined, found) in join.edges.items()}
    return EdgeReport(elapsed_s, join.new_rows, join.state_rows, samples)


def _rates(reports: Sequence[SiteReport], elapsed_s: float) -> dict[str, Rate]:
    """What every batch tells of its joins: rows of references, and pairs found."""
    counts: dict[str, int] = {}
    for report in reports:
        for query, join in report.joins.items():
            counts[f"{query} {report.site} pairs"] = join.pairs
            counts |= {f"{query} {report.site} of {alias}": rows for alias, rows in join.new_rows.items()}
    return {name: Rate(count / elapsed_s, count) for name, count in counts.items()}


def _told(batch: int, proposal: PlanProposal) -> AdaptEvent:
    message = (
        f"query {proposal.query} at site {proposal.site}: {proposal.old} → {proposal.new} "
        f"by {proposal.strategy}: {proposal.reason}"
    )
    return AdaptEvent(batch, EventKind.PLAN_CHANGED, message, proposal.to_json())
