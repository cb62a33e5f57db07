"""One run of a join on the engine without a JVM, under one way of routing, and what each batch did."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from anabranch.engine.local_driver import LocalRun, rows_by_slot, run_hops
from anabranch.engine.local_ingest import wire_rows
from anabranch.engine.reports import SlotReport
from anabranch.engine.settings import Settings
from anabranch.engine.sinks.memory_sink import MemorySink
from anabranch.engine.task.arrival.routing import routed
from anabranch.engine.task.slot_task import SlotTask
from anabranch.exchange.aligned_router import AlignedRouter, Member, Reign
from anabranch.plan.logical import Query, Stream
from anabranch.reproduce.diffusion.site_machines import MachinesRun
from anabranch.testing.stream_model import scratch


@dataclass(slots=True)
class DiffusionTrace:
    """What a run did, per batch: seconds of the busiest site and of all, copies and rows; and its results."""

    critical_s: list[float] = field(default_factory=list)
    busy_s: list[float] = field(default_factory=list)
    arrived: list[int] = field(default_factory=list)
    rows: list[int] = field(default_factory=list)
    slot_s: list[float] = field(default_factory=list)
    """CPU time of the busiest slot, with sorting and writing, where sites have slots of their own."""
    state_mb: list[float] = field(default_factory=list)
    """What the fullest site keeps."""
    found: list[int] = field(default_factory=list)
    """Results so far."""
    drained_s: float = 0.0
    """Critical path of what waited when the last batch was over."""
    results: pa.Table | None = None

    def path_s(self, skip: int) -> float:
        """The critical path, without the first batches."""
        return float(np.sum(self.critical_s[skip:]))

    def replication(self, skip: int) -> float:
        """Rows that arrived at sites ÷ rows of the streams."""
        return float(np.sum(self.arrived[skip:]) / np.sum(self.rows[skip:]))


class UnawareRouter(AlignedRouter):
    """Semantics-unaware routing (section 5): every row to one site, by load alone; it loses results."""

    def _reach(self, reign: Reign, member: Member) -> tuple[int, int]:
        return 0, 0


class UnawareRun(LocalRun):
    """A session whose rows are routed without regard to what they have to meet."""

    def _execute(self, task: SlotTask) -> list[SlotReport]:
        rows = wire_rows(self.loop.layout, self.loop.wire, self.streams, self._tables)
        routers = [UnawareRouter(r.members, r.table) for r in task.routers() if isinstance(r, AlignedRouter)]
        return run_hops(task, rows_by_slot(task, routed(rows, routers)))


def run_diffusion(
    streams: Sequence[Stream],
    query: Query,
    batches: Iterable[Mapping[str, pa.Table]],
    settings: Settings,
    *,
    unaware: bool = False,
    machines: bool = False,
) -> DiffusionTrace:
    """Run it, batch by batch; `machines` gives each site a slot with caches of its own."""
    trace, sink = DiffusionTrace(), MemorySink()
    kind = UnawareRun if unaware else MachinesRun if machines else LocalRun
    with scratch() as root:
        run = kind(root, streams, [query], sinks={query.name: sink}, settings=settings)
        try:
            for tables in batches:
                summary = run.batch(tables)
                sites = [site for report in summary.reports for site in report.sites]
                trace.critical_s.append(summary.critical_path_s)
                trace.busy_s.append(sum(site.busy_s for site in sites))
                trace.arrived.append(sum(site.rows for site in sites))
                trace.state_mb.append(max(site.state_bytes for site in sites) / 1e6)
                trace.found.append(sink.table().num_rows)
                trace.rows.append(sum(table.num_rows for table in tables.values()))
                if isinstance(run, MachinesRun):
                    trace.slot_s.append(max(run.slot_s))
            trace.drained_s = sum(summary.critical_path_s for summary in run.drain())
        finally:
            run.close()
    trace.results = sink.table()
    return trace
