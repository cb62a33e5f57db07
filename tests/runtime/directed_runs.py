"""Sessions without a JVM whose every boundary is told what to change: plans, sites, restarts, spills."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any
from unittest import mock

import pyarrow as pa
from tests.runtime.nasty_runs import bind, rows, stream

from anabranch.adapt.tracks import Migration, Track, Tracks
from anabranch.exchange.partition_map import PARTITIONS, PartitionMap
from anabranch.plan.logical import Query
from anabranch.plan.migration_cost import Strategy
from anabranch.runtime.adaptation import Adaptation
from anabranch.runtime.admission import OPEN, Admission
from anabranch.runtime.settings import Settings
from anabranch.runtime.sinks import MemorySink
from anabranch.runtime.steering import Steering
from anabranch.testing.crash_scenario import forget_processes_memory
from anabranch.testing.generated import Batch
from anabranch.testing.local_run import LocalRun
from anabranch.testing.oracle_check import accepted_rows, check_rows, expected_rows, scratch

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


@contextmanager
def directed(
    boundaries: Mapping[int, Boundary],
    spilled: Mapping[int, frozenset[int]],
    after_steps: Mapping[int, Boundary] | None = None,
) -> Iterator[None]:
    """While it lasts, sessions change what they are told after a batch, once, and nothing else.

    `spilled` tells by batch which partitions are not in memory, and `after_steps` what changes after the
    first further step of a batch.
    """
    left, later = dict(boundaries), dict(after_steps or {})
    at, now = [0], [Boundary()]

    def after(self: Adaptation, batch: int, current: PartitionMap, *_: Any, **__: Any) -> Any:
        at[0] = batch + 1
        waiting = left if batch in left else later
        told = now[0] = waiting.pop(batch, Boundary())
        if told.sites is not None:
            self.settings = replace(self.settings, sites=told.sites)
        moves = {p: min(site, current.sites - 1) for p, site in (told.moves or {}).items()}
        return current.moved(moves), ()

    def admission(self: Adaptation) -> Admission:
        held = spilled.get(at[0])
        return OPEN if held is None else Admission({}, held)

    def migrations(*_: Any) -> tuple[tuple[Migration, ...], tuple[()]]:
        return now[0].migrations, ()

    def strategy(*_: Any) -> Strategy:
        return now[0].rebalance

    with (
        mock.patch.object(Adaptation, "after", after),
        mock.patch.object(Adaptation, "admission", admission),
        mock.patch.object(Steering, "_migrations", migrations),
        mock.patch.object(Steering, "_strategy", strategy),
    ):
        yield


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
    run = LocalRun(root, STREAMS, queries, sinks=sinks, settings=settings)
    with directed(boundaries, spilled or {}, after_steps):
        for number, batch in enumerate(batches):
            if number in restarts:
                run.close()
                forget_processes_memory()
                again, others = restarts[number]
                run = LocalRun(root, STREAMS, again, sinks=sinks, settings=others)
            before = sinks[queries[0].name].table().num_rows
            sites = [s for r in run.batch(batch).reports for s in r.sites]
            if drained(number):
                run.drain()
            told.added.append(sinks[queries[0].name].table().num_rows - before)
            told.tracks.append(run.loop.tracks)
            told.rebuilt.append(sum(s.rebuilt_rows for s in sites))
            told.strays.append(sum(sum(pairs for *_, pairs in s.partitions) - s.pairs for s in sites))
    with directed({}, {}):
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
        tables = {n: pa.concat_tables(m.accepted[first:last]) for n, m in models.items()}
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
