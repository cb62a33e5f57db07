"""What stations bring and what they cost: a chain of three streams over many sites, without Spark.

* spread: the critical path of a chain at stations on all sites, against the join tree on one site;
* hops: the time of a chain, whose rows travel twice, against the same rows joined on a key that all share.
"""

from __future__ import annotations

import statistics
import time
from dataclasses import dataclass
from pathlib import Path

from anabranch.engine.local_driver import LocalRun
from anabranch.engine.settings import Settings
from anabranch.language.flow import bind_query
from anabranch.plan.logical import Query
from anabranch.workloads.chain import BATCH_US, STREAMS, Chain

WARM_UP = 2


@dataclass(frozen=True, slots=True)
class StationScale:
    """CPU seconds of the same batches, once windows are full.

    Attributes
    ----------
    spread_s, alone_s
        Critical path at stations on all sites, and as a tree on one: of the usual batch.
    worked_s
        All CPU time of the sites at stations, by site: what the critical path would be if all were alike.
    chain_s, shared_s
        All CPU time of the chain, and of the same rows joined on one key.
    """

    rows: int
    sites: int
    spread_s: float
    alone_s: float
    worked_s: float
    chain_s: float
    shared_s: float

    @property
    def spread(self) -> float:
        """How many times as fast all sites are as one."""
        return self.alone_s / self.spread_s

    @property
    def ratio(self) -> float:
        """What a chain costs beside a join on a key that all streams share."""
        return self.chain_s / self.shared_s


def run_station_scale(
    scratch: Path, *, rows: int = 100_000, sites: int = 8, batches: int = 9
) -> StationScale:
    """Run the same batches in all three ways; raises if stations give other results than the tree."""
    chain = Chain(rows, rows)
    runs = {
        name: _run(scratch / name, chain, query, ordering, sites=sites, batches=batches)
        for name, query, ordering in (
            ("spread", chain.query(), "eddy"),
            ("alone", chain.query(), "plan"),
            ("shared", shared_key_query(chain), "plan"),
        )
    }
    results = {name: runs[name].results for name in ("spread", "alone")}
    if results["spread"] != results["alone"]:
        raise AssertionError(f"results differ: {results}")
    return StationScale(
        rows,
        sites,
        spread_s=runs["spread"].critical_s,
        alone_s=runs["alone"].critical_s,
        worked_s=runs["spread"].site_s,
        chain_s=runs["spread"].cpu_s,
        shared_s=runs["shared"].cpu_s,
    )


def shared_key_query(chain: Chain) -> Query:
    """The same rows joined on a key that all streams share."""
    window = f"[RANGE {chain.window_batches * BATCH_US} MICROSECONDS]"
    text = (
        f"SELECT r.id AS r, s.id AS s, t.id AS t FROM r {window}, s {window}, t {window} "
        "WHERE r.u = s.u AND s.u = t.v"
    )
    return bind_query("chain", text, {stream.name: stream for stream in STREAMS})


@dataclass(frozen=True, slots=True)
class _Measured:
    """Seconds of the usual batch: the critical path, CPU time of a site and of all; and results."""

    critical_s: float
    site_s: float
    cpu_s: float
    results: int


def _run(scratch: Path, chain: Chain, query: Query, ordering: str, *, sites: int, batches: int) -> _Measured:
    # Without a key that all streams share, aligned routing would spread the tree over the sites, too.
    settings = Settings(
        sites=sites,
        slots=2,
        ordering=ordering,
        routing="hash",
        rebalance="off",
        migration="off",
        skew_buffer_rows=0,  # all results of a batch are counted with it
    )
    run = LocalRun(scratch, STREAMS, [query], settings=settings)
    critical_s, site_s, cpu_s = list[float](), list[float](), list[float]()
    try:
        for number, tables in enumerate(chain.batches(WARM_UP + batches, lambda _: (1.0, 1.0))):
            began = time.process_time()
            summary = run.batch(tables)
            if number >= WARM_UP:
                cpu_s.append(time.process_time() - began)
                critical_s.append(summary.critical_path_s)
                site_s.append(sum(s.busy_s for r in summary.reports for s in r.sites) / sites)
        critical, site, cpu = (statistics.median(seconds) for seconds in (critical_s, site_s, cpu_s))
        return _Measured(critical, site, cpu, run.results("chain").num_rows)
    finally:
        run.close()
