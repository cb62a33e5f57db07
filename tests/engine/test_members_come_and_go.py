"""Members of groups come and go while a session runs: each has the rows of its own batches, exactly once."""

from __future__ import annotations

import os
import random
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from unittest.mock import patch

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from anabranch.engine.live import prepared
from anabranch.engine.local_driver import LocalRun
from anabranch.engine.settings import Settings
from anabranch.engine.sinks.parquet_sink import ParquetSink
from anabranch.engine.sinks.shared_sink import shared
from anabranch.engine.task.results.staging import output_schema
from anabranch.plan.logical import Connector
from anabranch.state import catalog_log
from anabranch.state.storage import lease
from anabranch.testing.stream_model import StreamModel, accepted_rows, expected_rows
from tests.queries.generated_groups import NASTY, STREAMS, A, B, bound, filtered, joined, rows_of
from tests.support.coming_and_going import is_to_ask
from tests.support.crash_scenario import forget_processes_memory, often_collected, scratch
from tests.support.disk_faults import Disk, DiskFault, failing_disk
from tests.support.faults import SimulatedCrash
from tests.support.generated import Batch
from tests.support.oracle_check import check_rows
from tests.support.restless import RestlessDecider

BATCHES = 9
COLUMNS = ["{a}.id AS x", "{b}.id AS y"]
BASE = "SELECT a.id AS x, b.id AS y FROM a [RANGE 5 SECONDS] a, b [RANGE 5 SECONDS] b WHERE a.k = b.k"
CRASHES = int(os.environ.get("ANABRANCH_MEMBER_CRASHES", "8"))
LONG = range(100, 100 + int(os.environ.get("ANABRANCH_MEMBER_SEEDS", "40")))


@dataclass(frozen=True, slots=True)
class Stay:
    """A query from its first batch to its last; None where it stays to the end."""

    name: str
    text: str
    first: int
    last: int | None
    folder: str


@cache
def batches(seed: int) -> tuple[Batch, ...]:
    rng = random.Random(seed)
    return tuple(
        {name: rows_of(rng, name, 2 * number, rng.choice((4, 10))) for name in STREAMS}
        for number in range(BATCHES)
    )


@cache
def models(seed: int) -> dict[str, StreamModel]:
    return accepted_rows((A, B), batches(seed))


def stays_of(seed: int, *, names: int = 8) -> tuple[Stay, ...]:
    """Names that come, go and come again with other texts; some write to one sink that they share."""
    rng = random.Random(seed)
    found = []
    for number in range(names):
        name = NASTY[number] if number < len(NASTY) and rng.random() < 0.5 else f"q{number}"
        at = rng.randint(0, 3)
        while at < BATCHES - 1:
            together = rng.random() < 0.5
            text = joined(rng, COLUMNS) if together or rng.random() < 0.5 else filtered(rng)
            last = rng.choice([None, at + 1, at + 2, at + 3])
            last = last if last is not None and last < BATCHES else None
            folder = "all" if together else f"own{number}-{at}"
            found.append(Stay(name, text, at + 1, last, folder))
            if last is None:
                break
            at = last + rng.randint(1, 2)
    return tuple(found)


@dataclass(slots=True)
class World:
    """A checkpoint, its sinks, and how far the sources have come."""

    root: Path
    seed: int
    restless: bool = False
    dissolves: float = 0.0
    """How often a group is dissolved, useful or not."""
    done: int = 0
    ended: bool = False
    layouts: int = 0
    events: set[str] = field(default_factory=set)
    stays: tuple[Stay, ...] = field(init=False)

    def __post_init__(self) -> None:
        self.stays = stays_of(self.seed)

    def live(self) -> None:
        """One life of the process, to the end of input."""
        forget_processes_memory()
        rng = random.Random(self.seed)
        settings = Settings(
            sites=rng.choice((1, 3)),
            slots=rng.choice((1, 2)),
            max_blocks=1,
            keep_manifests=2,
            rebalance="off",
            sharing=rng.choice(("open", "open", "always")),
        )
        decider = RestlessDecider(self.seed, dissolves=self.dissolves) if self.restless else None
        few = patch.object(prepared, "FEW", rng.choice((2, 256)))
        merges = patch.multiple(catalog_log, FAN=rng.choice((2, 8)), FEW=rng.choice((4, 64)))
        with patch.object(lease, "LEASE_S", 0.0), often_collected(), few, merges:
            run = LocalRun(
                self.root / "ck",
                (A, B),
                [bound(BASE, "base"), bound(f"{BASE} AND a.v > 0", "other")],
                sinks=dict.fromkeys(("base", "other"), shared(ParquetSink(self.root / "all"))),
                settings=settings,
                decider=decider,
            )
            try:
                while self.done < BATCHES:
                    self._ask(run)
                    before = run.loop.layout.inputs
                    run.batch(batches(self.seed)[self.done], number=self.done)
                    self.layouts += run.loop.layout.inputs is not before
                    self.done += 1
                run.drain()
                run.end_of_input()
                self.ended = True
            finally:
                self.events |= {str(event.kind) for event in run.record.events}
                run.close()

    def _ask(self, run: LocalRun) -> None:
        going = [stay.name for stay in self.stays if stay.last == self.done]
        coming = [stay for stay in self.stays if stay.first == self.done + 1]
        if is_to_ask(run, self.done, going=going, coming=[stay.name for stay in coming]):
            for name in going:
                run.drop(name)
            for stay in coming:
                run.add(stay.name, stay.text, Connector("parquet", str(self.root / stay.folder)))

    def check(self) -> int:
        """Compare every sink with the oracle; returns how many rows there are."""
        everywhere = [
            Stay("base", BASE, 0, None, "all"),
            Stay("other", f"{BASE} AND a.v > 0", 0, None, "all"),
            *self.stays,
        ]
        expected: dict[tuple[str, str], list[pa.Table]] = {}
        for stay in everywhere:
            query = bound(stay.text, stay.name)
            end = None if stay.last is None else stay.last + 1
            tables = {s: m.rows_for(query, stay.first, end) for s, m in models(self.seed).items()}
            found = expected_rows(query, (A, B), tables)
            expected.setdefault((stay.folder, stay.name), []).append(found)
        total = 0
        for (folder, name), parts in expected.items():
            text = next(s.text for s in everywhere if (s.folder, s.name) == (folder, name))
            rows = self._rows(folder, name, text)
            check_rows(rows, pa.concat_tables(parts), what=f"{self.seed}: {folder}, {name}: {text}")
            total += rows.num_rows
        return total

    def _rows(self, folder: str, name: str, text: str) -> pa.Table:
        schema = output_schema(bound(text, name))
        is_shared = folder == "all"
        wanted = pa.schema([("query", pa.string()), *schema]) if is_shared else schema
        files = sorted((self.root / folder).glob("[!_.]*.parquet"))
        read = [pq.read_table(f, schema=wanted) for f in files]
        found = pa.concat_tables([wanted.empty_table(), *read])
        if not is_shared:
            return found
        return found.filter(pc.equal(found.column("query"), name)).drop_columns(["query"])


@pytest.mark.parametrize("seed", range(4))
def test_members_have_the_rows_of_their_own_batches(seed: int) -> None:
    with scratch("members") as root:
        world = World(root, seed, restless=seed % 2 == 1)
        world.live()
        assert world.check() > 0


@pytest.mark.parametrize("seed", range(4))
def test_groups_that_are_dissolved_at_any_boundary_leave_results_as_they_are(seed: int) -> None:
    with scratch("members") as root:
        world = World(root, seed, restless=True, dissolves=0.3)
        world.live()
        assert world.check() > 0
        assert world.events >= {"group_dissolved", "group_over"}


@pytest.mark.slow
@pytest.mark.parametrize("seed", LONG)
def test_members_of_many_sessions_have_the_rows_of_their_own_batches(seed: int) -> None:
    with scratch("members") as root:
        world = World(root, seed, restless=seed % 2 == 1, dissolves=seed % 4 / 5)
        world.live()
        world.check()


def test_a_crash_at_any_step_of_joining_and_leaving_loses_and_doubles_nothing() -> None:
    crashes = 0
    steps = {seed: disk_steps(seed) for seed in (0, 2)}
    for number in range(CRASHES):
        seed = (0, 2)[number % 2]
        step, fault = divmod(number * 997 % (steps[seed] * len(DiskFault)), len(DiskFault))
        with scratch("members") as root:
            world = World(root, seed, restless=number % 4 > 1, dissolves=0.4)
            disk = Disk(root, step + 1, list(DiskFault)[fault], number)
            while not world.ended:
                try:
                    with failing_disk(disk):
                        world.live()
                except SimulatedCrash:
                    crashes += 1
                disk = disk.next_life(None, DiskFault.BEFORE)
            world.check()
    assert crashes > CRASHES / 2


def disk_steps(seed: int) -> int:
    with scratch("members") as root:
        with failing_disk(Disk(root)) as disk:
            World(root, seed).live()
        return len(disk.steps)
