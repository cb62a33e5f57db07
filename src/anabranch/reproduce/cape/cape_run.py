"""One run of the CAPE join on the engine without a JVM, and what each batch did."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import pyarrow as pa

from anabranch.adapt.events import Event
from anabranch.adapt.plans.edge_statistics import EdgeStatistics
from anabranch.engine.local_driver import LocalRun
from anabranch.engine.settings import Settings
from anabranch.engine.sinks.memory_sink import MemorySink
from anabranch.engine.sinks.sink import ResultBatch, Sink
from anabranch.engine.step.batch_loop import BatchSummary
from anabranch.engine.task.sites.lemma_purge import LemmaPurge
from anabranch.engine.task.sites.site_work import is_over
from anabranch.plan.cost.estimates import JoinStatistics, window_seconds
from anabranch.plan.cost.migration_cost import (
    MigrationCost,
    PurgeRule,
    Strategy,
    moving_state_cost,
    parallel_track_cost,
)
from anabranch.plan.cost.plan_cost import Calibration, UnitCosts
from anabranch.plan.graph import JoinGraph
from anabranch.plan.tree import parse_plan
from anabranch.reproduce.cape.cape_streams import Arrivals, cape_query, cape_streams, cape_text
from anabranch.state.storage import PosixStorage
from anabranch.testing.stream_model import scratch

ONE_SITE = Settings(sites=1, slots=1, migration="off", rebalance="off", quota_pairs=1 << 40)


class NoSink:
    """Results are counted, not kept."""

    def open(self, query: str, schema: pa.Schema) -> None:
        pass

    def publish(self, results: ResultBatch) -> None:
        pass


@dataclass(frozen=True, slots=True)
class Change:
    """A migration at the boundary after a batch."""

    plan: str
    strategy: Strategy


@dataclass(frozen=True, slots=True)
class CapeRun:
    """What to run.

    Attributes
    ----------
    order
        The plan at the start is left-deep in this order.
    changes
        By the batch after which they happen.
    """

    arrivals: Arrivals
    window_us: int
    batches: int
    order: str = "abcd"
    changes: Mapping[int, Change] = field(default_factory=dict)
    lateness_us: int = 0
    rule: PurgeRule = PurgeRule.EXACT
    settings: Settings = ONE_SITE
    sharded: bool = False
    keep: bool = False
    """Whether to keep the results."""


@dataclass(slots=True)
class Trace:
    """What a run did, per batch.

    Attributes
    ----------
    critical_s
        CPU seconds of the busiest site.
    busy_s
        CPU seconds of all sites together.
    rebuild_s
        Of these, what computing states anew took, at all sites.
    results, intermediate
        Rows that came out; rows in intermediate states afterwards.
    running_old
        Whether a track that ends was at work.
    plans
        The plan of each site afterwards.
    known
        After each batch, what the optimizer knows, as the manifest remembers it.
    """

    critical_s: list[float] = field(default_factory=list)
    busy_s: list[float] = field(default_factory=list)
    rebuild_s: list[float] = field(default_factory=list)
    results: list[int] = field(default_factory=list)
    intermediate: list[int] = field(default_factory=list)
    running_old: list[bool] = field(default_factory=list)
    plans: list[tuple[str, ...]] = field(default_factory=list)
    known: list[Known] = field(default_factory=list)
    events: list[Event] = field(default_factory=list)
    table: pa.Table | None = None

    def track_batches(self) -> int:
        """For how many batches an old track worked."""
        return sum(self.running_old)


@dataclass(frozen=True, slots=True)
class Known:
    """What the engine knew of the join at a boundary: enough to predict a migration."""

    graph: JoinGraph
    statistics: JoinStatistics | None
    costs: UnitCosts
    lateness_s: float

    def predict(
        self, old: str, new: str, *, rule: PurgeRule = PurgeRule.EXACT
    ) -> tuple[MigrationCost, MigrationCost]:
        """Moving state and parallel track, by equations 1 to 8 with what was observed."""
        assert self.statistics is not None, "the engine has seen no batch yet"
        graph, statistics, costs = self.graph, self.statistics, self.costs
        before, after = parse_plan(old), parse_plan(new)
        return (
            moving_state_cost(before, after, graph=graph, statistics=statistics, costs=costs),
            parallel_track_cost(
                before,
                after,
                graph=graph,
                statistics=statistics,
                costs=costs,
                lateness_s=self.lateness_s,
                rule=rule,
            ),
        )


def run_cape(what: CapeRun) -> Trace:
    """Run it, batch by batch."""
    streams = cape_streams(lateness_us=what.lateness_us, sharded=what.sharded)
    query = cape_query(streams, cape_text(window_us=what.window_us, order=what.order, sharded=what.sharded))
    streams = tuple(s for s in streams if s.name in what.order)
    trace = Trace()
    sink: Sink = MemorySink() if what.keep else NoSink()
    with scratch() as root:
        over = is_over if what.rule is PurgeRule.EXACT else LemmaPurge(PosixStorage(root))
        run = LocalRun(root, streams, [query], sinks={"q": sink}, settings=what.settings, is_over=over)
        try:
            for number, tables in enumerate(what.arrivals.batches(what.batches)):
                if change := what.changes.get(number):
                    run.loop.migrate("q", change.plan, None, change.strategy)
                working = bool(run.loop.tracks.ending)
                summary = run.batch({name: tables[name] for name in what.order})
                _tell(trace, run, summary, working=working)
                trace.known.append(_known(run, summary, JoinGraph.of(query), window_seconds(query), what))
            if isinstance(sink, MemorySink):
                trace.table = sink.table()
        finally:
            run.close()
    return trace


def _tell(trace: Trace, run: LocalRun, summary: BatchSummary, *, working: bool) -> None:
    sites = [site for report in summary.reports for site in report.sites]
    leaves = {source.state for source in run.loop.layout.inputs}
    trace.critical_s.append(max(site.busy_s for site in sites))
    trace.busy_s.append(sum(site.busy_s for site in sites))
    trace.rebuild_s.append(sum(site.rebuild_s for site in sites))
    trace.results.append(sum(site.results for site in sites))
    trace.intermediate.append(sum(b.rows for b in summary.manifest.blocks if b.state not in leaves))
    trace.running_old.append(working)
    trace.plans.append(tuple(run.loop.tracks.plans["q"]))
    trace.events += summary.events


def _known(
    run: LocalRun, summary: BatchSummary, graph: JoinGraph, windows_s: Mapping[str, float], what: CapeRun
) -> Known:
    remembered = summary.manifest.controller["plans"]
    statistics = EdgeStatistics.from_json(remembered["edges"]).join_statistics(
        0, "q", graph=graph, windows_s=windows_s
    )
    costs = Calibration.from_json(remembered["calibration"]).unit_costs()
    return Known(graph, statistics, costs, what.lateness_us / 1e6)
