"""What stations bring and what they cost: a chain of three streams over many sites, without Spark.

* spread: the critical path of a chain at stations on all sites, against the join tree on one site;
* hops: the time of a chain, whose rows travel twice, against the same rows joined on a key that all share.
"""

from __future__ import annotations

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
        Critical path at stations on all sites, and as a tree on one.
    chain_s, shared_s
        All CPU time of the chain, and of the same rows joined on one key.
    """

    rows: int
    sites: int
    spread_s: float
    alone_s: float
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
    scratch: Path, *, rows: int = 100_000, sites: int = 8, batches: int = 5
) -> StationScale:
    """Run the same batches in all three ways; raises if stations give other results than the tree."""
    chain = Chain(rows, rows)
    runs = {
        name: _run(scratch / name, chain, query, ordering, sites=sites, batches=batches)
        for name, query, ordering in (
            ("spread", chain.query(), "eddy"),
            ("alone", chain.query(), "plan"),
            ("shared", _shared(chain), "plan"),
        )
    }
    if runs["spread"][2] != runs["alone"][2]:
        raise AssertionError(f"{runs['spread'][2]:,} results at stations, {runs['alone'][2]:,} on one site")
    return StationScale(
        rows,
        sites,
        spread_s=runs["spread"][0],
        alone_s=runs["alone"][0],
        chain_s=runs["spread"][1],
        shared_s=runs["shared"][1],
    )


def _shared(chain: Chain) -> Query:
    window = f"[RANGE {chain.window_batches * BATCH_US} MICROSECONDS]"
    text = (
        f"SELECT r.id AS r, s.id AS s, t.id AS t FROM r {window}, s {window}, t {window} "
        "WHERE r.u = s.u AND s.u = t.v"
    )
    return bind_query("chain", text, {stream.name: stream for stream in STREAMS})


def _run(
    scratch: Path, chain: Chain, query: Query, ordering: str, *, sites: int, batches: int
) -> tuple[float, float, int]:
    """Critical path, CPU time, results."""
    # Without a key that all streams share, aligned routing would spread the tree over the sites, too.
    settings = Settings(
        sites=sites, slots=2, ordering=ordering, routing="hash", rebalance="off", migration="off"
    )
    run = LocalRun(scratch, STREAMS, [query], settings=settings)
    critical_s = cpu_s = 0.0
    try:
        for number, tables in enumerate(chain.batches(WARM_UP + batches, lambda _: (1.0, 1.0))):
            began = time.process_time()
            summary = run.batch(tables)
            if number >= WARM_UP:
                cpu_s += time.process_time() - began
                critical_s += summary.critical_path_s
        return critical_s, cpu_s, run.results("chain").num_rows
    finally:
        run.close()
