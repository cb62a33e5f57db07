"""A small session without Spark that can be killed, restarted and judged thousands of times.

Two streams with late and broken rows, joins of two and of three, a filter, an aggregate, groups of a join
into parquet sinks, two slots and three sites, compaction and garbage collection in every batch or two, the
end of input declared at the end. In a share of the runs (`Scenario`) plans, sites and what is in memory
change at every boundary, and sites share nothing, so that what moves is copied.
`Spark` here is a list of batches: after a crash the batch that it did not see finished comes again under its
old number.
"""

from __future__ import annotations

import ast
import json
import random
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from unittest.mock import patch

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.dataset as pads

from anabranch.adapt.boundary.decider import Decider
from anabranch.engine.local_driver import LocalRun, rows_by_slot, run_hops
from anabranch.engine.local_ingest import mix_longs, wire_rows
from anabranch.engine.reports import SlotReport
from anabranch.engine.settings import Settings
from anabranch.engine.sinks.parquet_sink import ParquetSink
from anabranch.engine.step import batch_loop
from anabranch.engine.task.arrival import heavy_keys
from anabranch.engine.task.arrival.parcel import Parcel
from anabranch.engine.task.arrival.routing import routed
from anabranch.engine.task.blocks import draining_rows, open_blocks
from anabranch.engine.task.hop_run import run_hop
from anabranch.engine.task.slot_run import run_first_hop
from anabranch.engine.task.slot_task import SlotTask
from anabranch.engine.task.worker import constants
from anabranch.errors import AnabranchError
from anabranch.language.flow import bind_query
from anabranch.language.oracle.oracle_sql import oracle_sql, oracle_table
from anabranch.plan.logical import Column, Query, Stream
from anabranch.state import block_lists, side_file
from anabranch.state.paths import DEAD_LETTERS
from anabranch.state.storage import Storage, lease
from anabranch.workloads.stream_files import START_US
from tests.support.disk_faults import Disk, DiskFault, failing_disk
from tests.support.faults import SimulatedCrash
from tests.support.restless import RestlessDecider
from tests.support.restless_routing import RestlessRouting
from tests.support.storages import CHOSEN, forget_copies, storage_at, stored_rows

BATCHES = 4
FAULT_BATCHES = 3
"""Batches of a run with faults: enough for compaction, expiry and two collections of garbage."""
RESTLESS_BATCHES = 5
"""Batches of a run with faults and adaptation: enough for tracks to end."""
ROWS = 5
"""Rows per stream and batch."""
MAX_CRASHES = 3
LATENESS_US = 1_000_000
SETTINGS = Settings(sites=3, slots=2, max_blocks=1, keep_manifests=2, rebalance="off")
"""Without rebalancing, which goes by measured time, a seed always gives the same run."""
COLLECT_EVERY = 2

_COLUMNS = (Column("id", "bigint"), Column("k", "bigint"), Column("ts", "timestamp"))
STREAMS = {name: Stream(name, _COLUMNS, "ts", LATENESS_US) for name in "ab"}

Row = tuple[object, ...]
Judged = dict[str, Counter[Row]]
"""Rows by query, and dead letters, as multisets."""


@dataclass(frozen=True, slots=True)
class Scenario:
    """What a run with faults is made of.

    Attributes
    ----------
    queries
        Names in `TEXTS`.
    adaptations
        Seeds by which plans, sites and what is in memory change at every boundary; none where nothing does.
    only
        Part of the paths at which it is to die; empty for any.
    compact_every, partition_by
        Options of the parquet sinks.
    """

    queries: tuple[str, ...] = ("pairs", "ones", "counts")
    batches: int = FAULT_BATCHES
    adaptations: tuple[int, ...] = ()
    isolation: str = "shared"
    only: str = ""
    compact_every: int = 0
    partition_by: tuple[str, ...] = ()
    diffused: bool = False
    """Whether routers change at random, too."""
    hot: bool = False
    """Whether keys and groups become hot and cool at random."""


PLAIN = Scenario()
RESTLESS = Scenario(("pairs", "ones", "counts", "trios"), RESTLESS_BATCHES, tuple(range(16)))
GROUPED = Scenario(("groups", "kinds", "trio_groups"), RESTLESS_BATCHES, tuple(range(6)))
WINDOWED = Scenario(("windows", "hops", "sessions", "pair_windows"), RESTLESS_BATCHES, tuple(range(6)))
ISOLATED = Scenario(
    ("pairs", "trio_groups"),
    RESTLESS_BATCHES,
    (0, 1, 3, 7, 10, 13),  # in some others no row moves
    isolation="per_site",
)
COPYING = replace(ISOLATED, only="/site-")
MERGED = Scenario(("pairs", "ones"), 7, compact_every=2, only="ones")
"""Results become two files, then one, again and again; it dies where they are written."""
PARTED = Scenario(("pairs", "ones"), 6, compact_every=2, partition_by=("k",), only="ones")
CHAINED = Scenario(("chain", "pairs", "chain_groups"), RESTLESS_BATCHES, tuple(range(6)))
"""Without a key that all streams share: rows travel between two hops of a step, at which it may die, too."""
DIFFUSED = Scenario(("near_trio", "near_groups"), RESTLESS_BATCHES, tuple(range(6)), diffused=True)
"""Without an equality: rows go by segments or along paths, and change from one to the other."""
HOT = Scenario(("sums", "windows", "groups", "pairs"), RESTLESS_BATCHES, tuple(range(3)), hot=True)
"""Keys of a join and groups that become hot, are worked on at several sites, and cool."""

_TRIO = "FROM a [RANGE 1 SECOND], b [RANGE 1 SECOND], a [RANGE 1 SECOND] AS c WHERE a.k = b.k AND b.k = c.k"
_CHAIN = (
    "FROM a [RANGE 2 SECONDS], b [RANGE 1 SECOND], a [RANGE 1 SECOND] AS c "
    "WHERE a.k = b.k AND greatest(b.k, 1) = c.k"
)
_NEAR = (
    "FROM a [RANGE 3 SECONDS], b [RANGE 2 SECONDS], a [RANGE 1 SECOND] AS c "
    "WHERE abs(a.k - b.k) <= 1 AND b.id < c.id"
)
TEXTS = {
    "near_trio": f"SELECT a.id AS a, b.id AS b, c.id AS c {_NEAR}",
    "near_groups": f"SELECT c.k, count(*) AS n {_NEAR} GROUP BY c.k",
    "chain": f"SELECT a.id AS a, b.id AS b, c.id AS c {_CHAIN}",
    "chain_groups": f"SELECT c.k, count(*) AS n, min(a.id) AS lo {_CHAIN} GROUP BY c.k",
    "pairs": "SELECT a.id AS a, b.id AS b FROM a [RANGE 3 SECONDS], b [RANGE 2 SECONDS] WHERE a.k = b.k",
    "ones": "SELECT id, k FROM a WHERE k = 1",
    "counts": "SELECT k, count(*) AS n FROM b [RANGE 2 SECONDS] GROUP BY k",
    "sums": "SELECT k, count(*) AS n, max(id) AS hi FROM b [RANGE 2 SECONDS] GROUP BY k",
    "trios": f"SELECT a.id AS a, b.id AS b, c.id AS c {_TRIO}",
    "groups": "SELECT a.k, count(*) AS n, sum(a.id + b.id) AS s, max(b.id) AS hi "
    "FROM a [RANGE 3 SECONDS], b [RANGE 2 SECONDS] WHERE a.k = b.k GROUP BY a.k",
    "kinds": "SELECT DISTINCT a.k, a.id > b.id AS later "
    "FROM a [RANGE 1 SECOND], b [RANGE 1 SECOND] WHERE a.k = b.k",
    "windows": "SELECT k, unix_micros(window.start) AS start, count(*) AS n, sum(id) AS s "
    "FROM a GROUP BY k, window(ts, '2 seconds')",
    "hops": "SELECT unix_micros(window.end) AS e, count(DISTINCT k) AS n, first(id) AS f "
    "FROM b GROUP BY window(ts, '3 seconds', '1 second')",
    "sessions": "SELECT k, unix_micros(session_window.start) AS start, max(id) AS hi, count(*) AS n "
    "FROM b GROUP BY k, session_window(ts, '700 milliseconds')",
    "pair_windows": "SELECT a.k, unix_micros(window.start) AS start, count(*) AS n "
    "FROM a [RANGE 3 SECONDS], b [RANGE 2 SECONDS] "
    "WHERE a.k = b.k GROUP BY a.k, window(greatest(a.ts, b.ts), '2 seconds')",
    "trio_groups": f"SELECT c.k, count(*) AS n, min(a.id) AS lo {_TRIO} GROUP BY c.k HAVING count(*) > 1",
}


@cache
def queries(scenario: Scenario = PLAIN) -> tuple[Query, ...]:
    """The queries of a run."""
    return tuple(bind_query(name, TEXTS[name], STREAMS) for name in scenario.queries)


@cache
def batch(number: int) -> dict[str, pa.Table]:
    """The rows of one batch: in event time a second after the last, a few late, one without a time."""
    draw = random.Random(number)
    tables = {}
    for stream in STREAMS:
        rows = []
        for i in range(ROWS):
            late = (stream, number, i) in (("a", 2, 0), ("b", 3, 1))
            ts = START_US + (number - 3 * late) * 1_000_000 + draw.randint(0, 999_999)
            broken = (stream, number, i) == ("b", 1, 1)
            rows.append({"id": number * ROWS + i, "k": draw.randint(0, 2), "ts": None if broken else ts})
        schema = pa.schema([("id", pa.int64()), ("k", pa.int64()), ("ts", pa.timestamp("us", tz="UTC"))])
        columns = {c: [r[c] for r in rows] for c in ("id", "k", "ts")}
        tables[stream] = pa.table(columns, schema=schema)
    return tables


@cache
def expected(batches: int = BATCHES, scenario: Scenario = PLAIN) -> Judged:
    """What must be in the sinks, told by DuckDB, and in the dead letters, told by the definition of late."""
    accepted: dict[str, list[tuple[int, int, int]]] = {name: [] for name in STREAMS}
    late: dict[str, list[tuple[int, int, int]]] = {name: [] for name in STREAMS}
    dead: Counter[Row] = Counter()
    newest = dict.fromkeys(STREAMS, 0)
    for number in range(batches):
        for stream, table in batch(number).items():
            limit = newest[stream] - LATENESS_US
            for key, k, ts in _rows(table):
                if ts is None:
                    dead[stream, "no usable event time", number, key] += 1
                elif ts < limit:
                    dead[stream, "late", number, key] += 1
                    late[stream].append((key, k, ts))
                else:
                    accepted[stream].append((key, k, ts))
        for stream, kept in accepted.items():
            newest[stream] = max([newest[stream], *(ts for _, _, ts in kept)])
    found: Judged = {DEAD_LETTERS: dead}
    with duckdb.connect() as connection:
        for name in STREAMS:
            connection.execute(oracle_table(STREAMS[name]))
        # Queries without state get late rows, too.
        for rows_by_stream, alone in ((accepted, False), (late, True)):
            for name, rows in rows_by_stream.items():
                for key, k, ts in rows:
                    connection.execute(f"INSERT INTO {name} VALUES (?, ?, make_timestamp(?))", [key, k, ts])
            for query in (q for q in queries(scenario) if (len(q.refs) == 1 and not q.grouping) == alone):
                found[query.name] = Counter(connection.execute(oracle_sql(query, STREAMS)).fetchall())
    return found


def _rows(table: pa.Table) -> Iterator[tuple[int, int, int | None]]:
    columns = (table.column(c).cast(pa.int64()).to_pylist() for c in ("id", "k", "ts"))
    yield from zip(*columns, strict=True)


@dataclass(slots=True)
class Tricks:
    """How tasks misbehave: re-run with one report used, or finishing long after their batch."""

    draw: random.Random
    rerun: float = 0.0
    linger: float = 0.0
    zombies: list[Callable[[], list[Parcel]]] = field(default_factory=list)

    def first(self, task: SlotTask, slot: int, rows: list[pa.RecordBatch]) -> list[Parcel]:
        return self._run(lambda: list(run_first_hop(task, slot, rows)))

    def later(self, task: SlotTask, hop: int, slot: int, parcels: list[Parcel]) -> list[Parcel]:
        return self._run(lambda: list(run_hop(task, hop, slot, parcels)))

    def _run(self, attempt: Callable[[], list[Parcel]]) -> list[Parcel]:
        if self.draw.random() < self.linger:
            self.zombies.append(attempt)
        if self.draw.random() < self.rerun:
            return self.draw.choice([attempt(), attempt()])
        return attempt()

    def wake_zombies(self) -> None:
        """Let tasks of earlier batches finish now; that they fail is fine, that they do harm is not."""
        while self.zombies:
            try:
                self.zombies.pop()()
            except (AnabranchError, OSError):
                continue


class CrashRun(LocalRun):
    """A local run whose tasks may play tricks; rows on the wire are made once per batch, not per run."""

    def __init__(
        self,
        root: Path,
        tricks: Tricks,
        scenario: Scenario = PLAIN,
        kind: str = CHOSEN,
        decider: Decider | None = None,
    ) -> None:
        self.tricks = tricks
        self._ended = False
        running = queries(scenario)
        sinks = {q.name: _sink(root, q, scenario) for q in running}
        settings = replace(SETTINGS, isolation=scenario.isolation)
        super().__init__(
            root / "ck",
            tuple(STREAMS.values()),
            running,
            sinks=sinks,
            settings=settings,
            storage=storage_at(root / "ck", kind),
            decider=decider,
        )

    def finish(self) -> None:
        """Take the closing step, declare the end of input, and give sinks that have failed what waits."""
        self._ended = True
        self.drain()
        self.end_of_input()
        self.loop.try_sinks(now=True)
        self.loop.delivery.check_all_taken()

    def _execute(self, task: SlotTask) -> list[SlotReport]:
        rows = _rows_by_slot(task, self, {} if self._ended else batch(task.batch))
        return run_hops(task, rows, first=self.tricks.first, later=self.tricks.later)


def _sink(root: Path, query: Query, scenario: Scenario) -> ParquetSink:
    columns = [c for c in scenario.partition_by if c in {o.name for o in query.outputs}]
    return ParquetSink(root / query.name, partition_by=columns, compact_every=scenario.compact_every)


_wire: dict[object, tuple[list[pa.RecordBatch], ...]] = {}


def _rows_by_slot(
    task: SlotTask, run: LocalRun, tables: Mapping[str, pa.Table]
) -> tuple[list[pa.RecordBatch], ...]:
    slot_map = task.slot_map()
    key = (
        task.batch if tables else None,
        slot_map,
        tuple(run.sinks),
        repr((task.aligned, task.coordinated, task.hot)),
    )
    if key not in _wire:
        rows = wire_rows(run.loop.layout, run.loop.wire, run.streams, tables)
        _wire[key] = tuple(rows_by_slot(task, routed(rows, task.routers())))
    return _wire[key]


@dataclass(slots=True)
class World:
    """A checkpoint with its sinks, and how far Spark believes to be."""

    root: Path
    tricks: Tricks = field(default_factory=lambda: Tricks(random.Random(0)))
    done: int = 0
    """Batches that Spark saw finished."""
    batches: int = BATCHES
    """Batches until the end of input."""
    ended: bool = False
    """Whether the end of input was declared, and the process lived to see it."""
    scenario: Scenario = PLAIN
    seed: int | None = None
    """Of random adaptation, the same in every life; None is none."""
    kind: str = CHOSEN
    """Of the storage; see `storages`."""

    def __post_init__(self) -> None:
        storage_at(self.root / "ck", self.kind)  # makes an object store before anything can fail

    @property
    def storage(self) -> Storage:
        return storage_at(self.root / "ck", self.kind)

    def session(self, batches: int | None = None, forget: Callable[[], bool] = lambda: False) -> None:
        """One life of the process: start, run batches until all are done or it dies.

        Parameters
        ----------
        batches
            Stop before this one. Without it, run all and declare the end of input.
        forget
            Whether the process dies after a batch returned and before Spark noted it.
        """
        # Whoever follows a dead process has waited until its lease was over.
        least = 1 if self.scenario.hot else heavy_keys.LEAST_ROWS
        with patch.object(lease, "LEASE_S", 0.0), patch.object(heavy_keys, "LEAST_ROWS", least):
            self._live(batches, forget)

    def _live(self, batches: int | None, forget: Callable[[], bool]) -> None:
        forget_processes_memory()
        keys = mix_longs(np.arange(3)).tolist() if self.scenario.hot else ()
        decider: Decider | None = None if self.seed is None else RestlessDecider(self.seed, keys=keys)
        if self.seed is not None and self.scenario.diffused:
            decider = RestlessRouting(self.seed, decider)
        run = CrashRun(self.root, self.tricks, self.scenario, self.kind, decider)
        try:
            while self.done < (self.batches if batches is None else batches):
                run.batch({}, number=self.done)
                if forget():
                    return
                self.done += 1
                self.tricks.wake_zombies()
            if batches is None:
                run.finish()
                self.ended = True
        finally:
            run.close()

    def expected(self) -> Judged:
        """What must be there at the end."""
        return expected(self.batches, self.scenario)

    def result(self) -> Judged:
        """What is in the sinks and in the dead letters."""
        found: Judged = {}
        for query in queries(self.scenario):
            names = [o.name for o in query.outputs]
            tables = sink_tables(self.root / query.name)
            found[query.name] = Counter(
                row for t in tables for row in zip(*(t.column(n).to_pylist() for n in names), strict=True)
            )
        found[DEAD_LETTERS] = Counter()
        for row in stored_rows(self.storage, DEAD_LETTERS):
            key = (row["stream"], row["reason"], row["batch"], _dead_id(row["row"]))
            found[DEAD_LETTERS][key] += 1
        return found


def sink_tables(folder: Path) -> list[pa.Table]:
    """What readers find: files by name, with what the names of their folders say."""
    return [
        pads.dataset(file, partitioning="hive", partition_base_dir=str(folder)).to_table()
        for file in folder.rglob("[!_.]*.parquet")
    ]


def crash_and_recover(root: Path, seed: int, scenario: Scenario = PLAIN, kind: str = CHOSEN) -> int:
    """Kill a session where `seed` says, restart it, perhaps kill it again, finish it, and judge it.

    The first crash is at each of the steps of an undisturbed run in each way when there are enough seeds;
    those after it are random.

    Returns
    -------
    int
        How many crashes there were.
    """
    draw = random.Random(seed)
    tricks = Tricks(draw, rerun=draw.choice([0.0, 0.0, 0.3]), linger=draw.choice([0.0, 0.0, 0.3]))
    adaptations = scenario.adaptations or (None,)
    adapting = adaptations[seed % len(adaptations)]
    world = World(root, tricks, batches=scenario.batches, scenario=scenario, seed=adapting, kind=kind)
    steps = count_steps(scenario, adapting, kind)
    forgetful = draw.choice([0.0, 0.0, 0.3])
    crashes = 0
    most = draw.choice([1, 1, MAX_CRASHES])
    faults = list(DiskFault)
    step, fault = divmod(seed * 997 % (len(faults) * steps), len(faults))  # 997: any few seeds are spread out
    disk = Disk(root, step + 1, faults[fault], seed, scenario.only)
    while not world.ended:
        try:
            with failing_disk(disk):
                world.session(forget=lambda: draw.random() < forgetful)
        except SimulatedCrash:
            crashes += 1
        crash_at = draw.randint(1, steps // 2) if crashes < most else None
        disk = disk.next_life(crash_at, draw.choice(list(DiskFault)))
    assert_same(world.result(), world.expected(), f"seed {seed}, {crashes} crashes")
    return crashes


@cache
def count_steps(scenario: Scenario = PLAIN, seed: int | None = None, kind: str = CHOSEN) -> int:
    """Changes to the disk, where it may die, of a run without faults, which must be right, too."""
    with scratch("dry") as root:
        world = World(root, batches=scenario.batches, scenario=scenario, seed=seed, kind=kind)
        disk = Disk(root, only=scenario.only)
        with often_collected(), failing_disk(disk):
            world.session()
        assert_same(world.result(), world.expected(), "no faults")
        return len(disk.steps)


@contextmanager
def often_collected() -> Iterator[None]:
    """Garbage is collected every other batch."""
    with patch.object(batch_loop, "COLLECT_EVERY", COLLECT_EVERY):
        yield


@contextmanager
def scratch(name: str) -> Iterator[Path]:
    """A directory in memory where there is one: thousands of runs should not wait for a disk."""
    # A name of its own: a run that was killed leaves its directory, and process numbers come again.
    shared = Path("/dev/shm")
    with tempfile.TemporaryDirectory(
        prefix=f"anabranch-{name}-", dir=shared if shared.is_dir() else None, ignore_cleanup_errors=True
    ) as root:
        yield Path(root)


def forget_processes_memory() -> None:
    """Drop what a new process would not have: open blocks, constants, and what was put together from them."""
    open_blocks._opened.clear()
    constants._known.clear()
    block_lists.read_list.cache_clear()
    side_file.read_side_file.cache_clear()
    draining_rows._gathered.clear()
    forget_copies()


def _dead_id(text: str) -> int:
    # Rows of a stream's own columns, or of the fields that the queries took from it.
    values = json.loads(text) if text.startswith("{") and '"' in text else ast.literal_eval(text)
    return int(next(v for name, v in values.items() if name.strip("`").startswith("id")))


def assert_same(found: Judged, wanted: Judged, what: str) -> None:
    for name, rows in wanted.items():
        lost, extra = rows - found[name], found[name] - rows
        assert not lost, f"{what}: {name} lost {dict(lost)}"
        assert not extra, f"{what}: {name} has too many {dict(extra)}"
