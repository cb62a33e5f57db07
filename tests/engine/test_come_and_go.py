"""Queries that come and go while a session runs: every one has its own rows, and no other notices."""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from unittest.mock import patch

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from anabranch.adapt.events import EventKind
from anabranch.engine.live.mailbox import Letter, await_answer, letters, post
from anabranch.engine.local_driver import LocalRun
from anabranch.engine.settings import Settings
from anabranch.engine.sinks.parquet_sink import ParquetSink
from anabranch.engine.task.results.staging import output_schema
from anabranch.errors import ConfigError
from anabranch.plan.logical import Connector, Query
from anabranch.queries.turnover import Replace
from anabranch.state import PosixStorage, QueryStatus, newest
from anabranch.state.paths import CATALOGS
from anabranch.state.storage import lease
from anabranch.testing.stream_model import StreamModel, accepted_rows, expected_rows
from tests.engine.directed_runs import STREAMS, joined, steady_batches
from tests.engine.nasty_runs import bind
from tests.support.coming_and_going import is_to_ask
from tests.support.crash_scenario import forget_processes_memory, often_collected, scratch
from tests.support.disk_faults import Disk, DiskFault, failing_disk
from tests.support.faults import SimulatedCrash
from tests.support.oracle_check import check_rows
from tests.support.restless import RestlessDecider

BATCHES = 6
SETTINGS = Settings(sites=3, slots=2, max_blocks=1, keep_manifests=2, rebalance="off")
BASE = joined("a", "b", "c", name="base")
TEXTS = {
    "pairs": joined("a", "b").text,
    "chosen": f"{joined('a', 'b').text} AND a.v > 1 AND b.v < 4",
    "others": joined("b", "d").text,
    "trio": joined("a", "b", "c").text,
    "ones": "SELECT id, k FROM c WHERE v = 1",
}
COUNTS = "SELECT k, count(*) AS n FROM b [RANGE 30 MICROSECONDS] GROUP BY k"
CRASHES = 8


@dataclass(frozen=True, slots=True)
class Stay:
    """A query from its first batch to its last; None where it stays to the end."""

    name: str
    text: str
    first: int
    last: int | None

    @property
    def folder(self) -> str:
        return f"{self.name}-{self.first}"


@dataclass(frozen=True, slots=True)
class Script:
    """Who comes and who goes with which batch."""

    stays: tuple[Stay, ...]

    @classmethod
    def of(cls, seed: int) -> Script:
        """Every name comes, goes and may come again, at random; one with a window stays."""
        draw = random.Random(seed)
        stays = [Stay("counts", COUNTS, draw.randint(1, 3), None)]
        for name in TEXTS:
            at = draw.randint(0, 2)
            while at < BATCHES - 1:
                last = draw.choice([None, at + 1, at + 2])
                text = TEXTS[draw.choice([name, "pairs"])]
                stays.append(Stay(name, text, at + 1, last if last and last < BATCHES else None))
                if stays[-1].last is None:
                    break
                at = stays[-1].last + draw.randint(1, 2)
        return cls(tuple(stays))

    def ask(self, run: LocalRun, batch: int, root: Path) -> None:
        """Ask for what is to change with a batch, unless it has."""
        going = [stay.name for stay in self.stays if stay.last == batch]
        coming = [stay for stay in self.stays if stay.first == batch + 1]
        if is_to_ask(run, batch, going=going, coming=[stay.name for stay in coming]):
            for name in going:
                run.drop(name)
            for stay in coming:
                run.add(stay.name, stay.text, Connector("parquet", str(root / stay.folder)))


@cache
def batches() -> tuple[Mapping[str, pa.Table], ...]:
    return tuple(steady_batches(BATCHES))


@cache
def models() -> dict[str, StreamModel]:
    return accepted_rows(STREAMS, list(batches()))


def check(root: Path, name: str, text: str, *, folder: str, first: int = 0, last: int | None = None) -> int:
    """Compare what a sink has with the oracle's rows of some batches; returns how many there are."""
    (query,) = bind(STREAMS, **{name: text})
    end = None if last is None else last + 1
    tables = {s: model.rows_for(query, first, end) for s, model in models().items()}
    found = results(root / folder, query)
    check_rows(found, expected_rows(query, STREAMS, tables), what=f"{folder}: {text}")
    return found.num_rows


def results(folder: Path, query: Query) -> pa.Table:
    files = sorted(folder.glob("[!_.]*.parquet"))
    schema = output_schema(query)
    return pa.concat_tables([schema.empty_table(), *(pq.read_table(f, schema=schema) for f in files)])


@dataclass(slots=True)
class World:
    """A checkpoint, its sinks, and how far the sources have come."""

    root: Path
    script: Script
    seed: int | None = None
    done: int = 0
    ended: bool = False
    events: list[str] = field(default_factory=list)

    def live(self) -> None:
        """One life of the process, to the end of input."""
        forget_processes_memory()
        decider = None if self.seed is None else RestlessDecider(self.seed)
        with patch.object(lease, "LEASE_S", 0.0), often_collected():
            run = LocalRun(
                self.root / "ck",
                STREAMS,
                [BASE],
                sinks={"base": ParquetSink(self.root / "base")},
                settings=SETTINGS,
                decider=decider,
            )
            try:
                while self.done < BATCHES:
                    self.script.ask(run, self.done, self.root)
                    run.batch(batches()[self.done], number=self.done)
                    self.done += 1
                run.drain()
                run.end_of_input()
                self.ended = True
            finally:
                self.events += [str(event.kind) for event in run.record.events]
                run.close()

    def check(self) -> int:
        rows = check(self.root, "base", BASE.text, folder="base")
        for stay in self.script.stays:
            rows += check(
                self.root, stay.name, stay.text, folder=stay.folder, first=stay.first, last=stay.last
            )
        return rows


@pytest.mark.parametrize("seed", range(4))
def test_every_query_has_the_rows_of_its_own_batches(seed: int) -> None:
    with scratch("come") as root:
        world = World(root, Script.of(seed), seed)
        world.live()
        assert world.check() > 50
        assert world.events.count(EventKind.QUERY_ADDED) == len(world.script.stays)
        going = [stay for stay in world.script.stays if stay.last is not None]
        assert world.events.count(EventKind.QUERY_DROPPED) == len(going) > 0


def test_a_crash_at_any_step_of_coming_and_going_loses_and_doubles_nothing() -> None:
    scripts = [Script.of(seed) for seed in range(3)]
    steps = [disk_steps(script) for script in scripts]
    crashes = 0
    for number in range(CRASHES):
        script, most = scripts[number % 3], steps[number % 3]
        step, fault = divmod(number * 997 % (most * len(DiskFault)), len(DiskFault))
        with scratch("come") as root:
            world = World(root, script, seed=number)
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


def disk_steps(script: Script) -> int:
    with scratch("come") as root:
        with failing_disk(Disk(root)) as disk:
            World(root, script).live()
        return len(disk.steps)


def started(root: Path, *queries: Query) -> LocalRun:
    return LocalRun(root / "ck", STREAMS, queries, settings=SETTINGS)


def test_a_query_that_came_goes_on_after_a_restart_and_one_that_went_stays_away(tmp_path: Path) -> None:
    pairs = joined("a", "b", name="pairs")
    run = started(tmp_path, BASE, pairs)
    run.add("more", TEXTS["others"], Connector("parquet", str(tmp_path / "more")))
    run.drop("pairs")
    run.batch(batches()[0])
    run.batch(batches()[1])
    run.close()
    run = started(tmp_path, BASE, pairs)
    assert [q.name for q in run.loop.catalog.queries] == ["base", "more"]
    for batch in batches()[2:]:
        run.batch(batch)
    run.add("pairs", pairs.text)
    run.batch(batches()[0])
    run.close()
    assert check(tmp_path, "more", TEXTS["others"], folder="more", first=1)
    run = started(tmp_path, BASE, pairs)
    assert {q.name for q in run.loop.catalog.queries} == {"base", "more", "pairs"}
    run.close()


def test_a_replaced_query_keeps_its_state_where_that_has_all_it_needs(tmp_path: Path) -> None:
    text = joined("a", "b", name="pairs").text
    narrower = text.replace("a.id AS a", "a.id * 1 AS a").replace("id * 1", "id")
    other = text.replace("25 MICROSECONDS", "5 MICROSECONDS")
    run = started(tmp_path, BASE, *bind(STREAMS, pairs=text))
    run.batch(batches()[0])
    run.replace("pairs", f"{narrower} AND a.k = b.k")
    run.batch(batches()[1])
    assert state_of(run, "pairs") == (0, QueryStatus.RUNNING)
    run.replace("pairs", other)
    run.batch(batches()[2])
    assert state_of(run, "pairs") == (3, QueryStatus.RUNNING)
    run.close()


def state_of(run: LocalRun, name: str) -> tuple[int, QueryStatus]:
    return next((s.since, s.status) for s in run.loop.catalog.states if s.name == name)


def test_what_makes_no_sense_is_refused_at_once(tmp_path: Path) -> None:
    run = started(tmp_path, BASE)
    with pytest.raises(ConfigError, match="a query 'base' already"):
        run.add("base", TEXTS["pairs"])
    with pytest.raises(ConfigError, match="no query 'pairs': choose from base"):
        run.drop("pairs")
    with pytest.raises(ConfigError, match="the only query"):
        run.drop("base")
    run.add("pairs", TEXTS["pairs"])
    with pytest.raises(ConfigError, match="has the results a int, b int"):
        run.loop.ask(Replace(bind(STREAMS, pairs=TEXTS["ones"])[0]))
    run.drop("base")
    with pytest.raises(ConfigError, match="is just being dropped"):
        run.add("base", BASE.text)
    run.close()


def test_catalogs_of_queries_that_came_and_went_are_collected(tmp_path: Path) -> None:
    run = started(tmp_path, BASE)
    with often_collected():
        for number in range(10):
            if number % 2 == 0:
                run.add("pairs", TEXTS["pairs"])
            else:
                run.drop("pairs")
            run.batch(batches()[0])
    run.close()
    storage = PosixStorage(tmp_path / "ck")
    assert newest(storage) is not None
    assert len(storage.list(CATALOGS)) <= 5


def test_letters_are_carried_out_once_whatever_step_the_session_dies_at() -> None:
    text, more = TEXTS["pairs"], Letter("add", "more", TEXTS["others"], Connector("parquet", "OUT"))
    steps = None
    number = 0
    while steps is None or number < steps:
        with scratch("mail") as root:
            letter = replace(more, sink=Connector("parquet", str(root / "more")))
            disk = Disk(root / "ck", None if steps is None else number + 1, DiskFault.AFTER, number)
            run = started(root, BASE, *bind(STREAMS, pairs=text))
            run.batch(batches()[0])
            names = [post(run.storage, letter), post(run.storage, Letter("drop", "pairs"))]
            refused = post(run.storage, Letter("drop", "nobody"))
            try:
                with failing_disk(disk):
                    run.batch(batches()[1])
            except SimulatedCrash:
                run.close()
                forget_processes_memory()
                with patch.object(lease, "LEASE_S", 0.0):
                    run = started(root, BASE, *bind(STREAMS, pairs=text))
                run.batch(batches()[1], number=1)
            for batch in batches()[2:4]:
                run.batch(batch)
            assert {q.name for q in run.loop.catalog.queries} == {"base", "more"}
            assert letters(run.storage) == []
            for name in names:
                assert await_answer(run.storage, name, timeout_s=0)
            with pytest.raises(ConfigError, match="no query 'nobody'"):
                await_answer(run.storage, refused, timeout_s=0)
            run.close()
            check(root, "more", TEXTS["others"], folder="more", first=2, last=3)
        steps, number = steps or len(disk.steps), number + 9


def test_a_letter_that_makes_no_sense_is_answered(tmp_path: Path) -> None:
    run = started(tmp_path, BASE)
    run.storage.put_if_absent("mailbox/1-torn", b'{"action": "ad')
    wrong = post(run.storage, Letter("add", "wrong", "SELECT nothing FROM a"))
    assert not await_answer(run.storage, wrong, timeout_s=0)
    run.batch(batches()[0])
    for name, why in (("1-torn", "cannot be read"), (wrong, "nothing")):
        with pytest.raises(ConfigError, match=why):
            await_answer(run.storage, name, timeout_s=0)
    assert letters(run.storage) == []
    run.close()
