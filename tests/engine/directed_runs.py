"""Sessions without a JVM whose every boundary is told what to change: plans, sites, restarts, spills."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pyarrow as pa

from anabranch.adapt.boundary.boundary_state import BoundaryState
from anabranch.adapt.boundary.decisions import Choice, Decisions
from anabranch.adapt.boundary.enact import enact, start_with
from anabranch.adapt.boundary.observed import Observed
from anabranch.adapt.memory.admission import OPEN, Admission
from anabranch.adapt.tracks.tracks import Migration, Track, Tracks
from anabranch.engine.local_driver import LocalRun
from anabranch.engine.settings import Settings
from anabranch.engine.sinks.memory_sink import MemorySink
from anabranch.exchange.address import PARTITIONS
from anabranch.exchange.partition_map import PartitionMap
from anabranch.plan.cost.migration_cost import Strategy
from anabranch.plan.logical import Query
from anabranch.testing.stream_model import accepted_rows, expected_rows, scratch
from tests.engine.nasty_runs import bind, rows, stream
from tests.support.crash_scenario import forget_processes_memory
from tests.support.generated import Batch
from tests.support.oracle_check import check_rows

MS, PT = Strategy.MOVING_STATE, Strategy.PARALLEL_TRACK
STRATEGIES = [MS, PT]
TWO_SITES = Settings(sites=2, slots=1, max_blocks=1, rebalance="off")
TWO_SLOTS = replace(TWO_SITES, slots=2)

AB_C, BC_A, AC_B = "((a b) c)", "((b c) a)", "((a c) b)"
ABC_D, BCD_A, AB_CD, AC_BD = "(((a b) c) d)", "(((b c) d) a)", "((a b) (c d))", "((a c) (b d))"
WINDOW = 25
LATENESS = 6
STREAMS = tuple(stream(name, LATENESS) for name in "abcd")


@dataclass(frozen=True, slots=True)
class Boundary:
    """What changes after a batch."""

    migrations: tuple[Migration, ...] = ()
    moves: Mapping[int, int] | None = None
    """Partition → site."""
    rebalance: Strategy = MS
    sites: int | None = None


def joined(*aliases: str, name: str = "q", window: int | None = WINDOW) -> Query:
    """An equi-join of some of the streams on one key; without a window it is for ever."""
    first, *others = aliases
    length = "UNBOUNDED" if window is None else f"{window} MICROSECONDS"
    sources = ", ".join(f"{a} [RANGE {length}]" for a in aliases)
    where = " AND ".join(f"{first}.k = {other}.k" for other in others)
    outputs = ", ".join(f"{a}.id AS {a}" for a in aliases)
    (query,) = bind(STREAMS, **{name: f"SELECT {outputs} FROM {sources} WHERE {where}"})
    return query


def steady_batches(count: int, *, keys: int = 12, per_batch: int = 8) -> list[Batch]:
    """Every stream goes on by ten a batch; its rows come out of order, a few of them late."""
    found = []
    for number in range(count):
        batch = {}
        for order, s in enumerate(STREAMS):
            given = [
                ((7 * i + 3 * order + number) % keys, 10 * number + (11 * i + 5 * order) % 16 - LATENESS)
                for i in range(per_batch)
            ]
            batch[s.name] = rows(*((k, max(0, t)) for k, t in given), first=number * per_batch)
        found.append(batch)
    return found


@dataclass(frozen=True, slots=True)
class DirectedDecider:
    """Decides what it is told, and nothing else.

    Attributes
    ----------
    boundaries, after_steps
        What changes after a batch, and after the first further step of one.
    spilled
        By batch, which partitions are not in memory.
    batches
        After so many nothing is spilled any more.
    """

    boundaries: Mapping[int, Boundary]
    spilled: Mapping[int, frozenset[int]]
    after_steps: Mapping[int, Boundary]
    batches: int

    def start(self, state: BoundaryState, observed: Observed) -> tuple[BoundaryState, Decisions]:
        return state, start_with(self._admission(observed), observed)

    def decide(self, state: BoundaryState, observed: Observed) -> tuple[BoundaryState, Decisions]:
        scripts = {0: self.boundaries, 1: self.after_steps}
        told = scripts.get(observed.step, {}).get(observed.batch, Boundary())
        current = observed.partition_map
        moves = {p: min(site, current.sites - 1) for p, site in (told.moves or {}).items()}
        after = current.moved(moves)
        if told.sites is not None and told.sites != after.sites:
            after = after.rescaled(told.sites)
        choice = Choice(after, told.rebalance, told.migrations, self._admission(observed))
        return state, enact(choice, observed)

    def _admission(self, observed: Observed) -> Admission:
        held = self.spilled.get(observed.batch + 1) if observed.batch + 1 < self.batches else None
        return OPEN if held is None else Admission({}, held)


@dataclass(slots=True)
class Told:
    """What a session did: per batch the results it added and the tracks after it."""

    results: dict[str, pa.Table]
    added: list[int] = field(default_factory=list)
    """Rows that a batch added to the sink of the first query."""
    tracks: list[Tracks] = field(default_factory=list)
    rebuilt: list[int] = field(default_factory=list)
    """Rows of states that a batch computed anew."""
    strays: list[int] = field(default_factory=list)
    """Pairs that count as load of a partition and are not those of new rows."""

    def ending(self, batch: int) -> tuple[Track, ...]:
        return self.tracks[batch].ending


Restart = tuple[Sequence[Query], Settings]


def run_directed(
    root: Path,
    queries: Sequence[Query],
    batches: Sequence[Batch],
    boundaries: Mapping[int, Boundary],
    *,
    settings: Settings = TWO_SITES,
    restarts: Mapping[int, Restart] | None = None,
    spilled: Mapping[int, frozenset[int]] | None = None,
    drained: Callable[[int], bool] = lambda batch: False,
    after_steps: Mapping[int, Boundary] | None = None,
    ended: bool = True,
) -> Told:
    """Run batches; before those in `restarts` the process ends, and another goes on with other settings."""
    restarts = restarts or {}
    everyone = [*queries, *(q for again, _ in restarts.values() for q in again)]
    sinks = {q.name: MemorySink() for q in everyone}
    told = Told({})
    decider = DirectedDecider(boundaries, spilled or {}, after_steps or {}, len(batches))
    run = LocalRun(root, STREAMS, queries, sinks=sinks, settings=settings, decider=decider)
    for number, batch in enumerate(batches):
        if number in restarts:
            run.close()
            forget_processes_memory()
            again, others = restarts[number]
            run = LocalRun(root, STREAMS, again, sinks=sinks, settings=others, decider=decider)
        before = sinks[queries[0].name].table().num_rows
        sites = [s for r in run.batch(batch).reports for s in r.sites]
        if drained(number):
            run.drain()
        told.added.append(sinks[queries[0].name].table().num_rows - before)
        told.tracks.append(run.loop.tracks)
        told.rebuilt.append(sum(s.rebuilt_rows for s in sites))
        told.strays.append(sum(sum(pairs for *_, pairs in s.partitions) - s.pairs for s in sites))
    run.drain()
    if ended:
        run.end_of_input()
    run.close()
    told.results = {name: sink.table() for name, sink in sinks.items()}
    return told


def check_directed(
    queries: Sequence[Query],
    batches: Sequence[Batch],
    boundaries: Mapping[int, Boundary],
    *,
    lives: Mapping[str, tuple[int, int]] | None = None,
    **how: Any,
) -> Told:
    """Run a session as told and compare each query with the oracle over the batches of its life."""
    with scratch() as root:
        told = run_directed(root, queries, batches, boundaries, **how)
    models = accepted_rows(STREAMS, batches)
    later = [q for again, _ in how.get("restarts", {}).values() for q in again]
    everyone = {q.name: q for q in [*queries, *later]}
    for name, query in everyone.items():
        first, last = (lives or {}).get(name, (0, len(batches)))
        tables = {n: m.rows_for(query, first, last) for n, m in models.items()}
        check_rows(told.results[name], expected_rows(query, STREAMS, tables), what=name)
    return told


def migration(plan: str, strategy: Strategy, *, site: int, query: str = "q") -> Migration:
    return Migration(query, site, plan, strategy)


def everywhere(plan: str, strategy: Strategy, *, sites: int = 2, query: str = "q") -> Boundary:
    """Every site changes to a plan."""
    return Boundary(tuple(migration(plan, strategy, site=s, query=query) for s in range(sites)))


def all_to(site: int, strategy: Strategy, **more: Any) -> Boundary:
    """All partitions move to one site."""
    return Boundary(moves=dict.fromkeys(range(PARTITIONS), site), rebalance=strategy, **more)


def swapped(strategy: Strategy) -> Boundary:
    """Two sites exchange all their partitions."""
    at = PartitionMap.even(2).site_of_partition
    return Boundary(moves={p: 1 - s for p, s in enumerate(at)}, rebalance=strategy)
