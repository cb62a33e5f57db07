"""Stop the whole batch loop at every change it makes to the disk; restart; nothing is lost or doubled."""

from __future__ import annotations

import os
import random
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from unittest import mock

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from anabranch.engine.sinks.parquet_sink import ParquetSink
from anabranch.engine.sinks.staged_file import StagedFile
from anabranch.errors import AnabranchError, StateError
from anabranch.state import (
    FencedError,
    ManifestConflict,
    PosixStorage,
    collect_garbage,
    newest,
    verify_chain,
)
from anabranch.state.manifest import ResultFile
from anabranch.state.storage import Storage, posix_storage
from tests.support.crash_scenario import (
    BATCHES,
    CHAINED,
    COPYING,
    DIFFUSED,
    GROUPED,
    HOT,
    ISOLATED,
    PLAIN,
    RESTLESS,
    WINDOWED,
    CrashRun,
    Scenario,
    Tricks,
    World,
    assert_same,
    count_steps,
    crash_and_recover,
    expected,
    often_collected,
    queries,
    scratch,
)
from tests.support.disk_faults import Disk, DiskFault, failing_disk
from tests.support.faults import SimulatedCrash
from tests.support.storages import CHOSEN

SEEDS = int(os.environ.get("ANABRANCH_FAULT_SEEDS", "1000"))
PARTS = 4
OTHERS = {
    "groups of joins": GROUPED,
    "windows": WINDOWED,
    "rows between stations": CHAINED,
    "segments and paths": DIFFUSED,
    "hot keys and hot groups": HOT,
    "what is being copied": COPYING,
    "what has been copied": ISOLATED,
}
FIRST_SEED = int(os.environ.get("ANABRANCH_FAULT_FIRST_SEED", "0"))


@pytest.fixture
def root() -> Iterator[Path]:
    with scratch("faults") as folder, often_collected():
        yield folder


@pytest.mark.parametrize("part", range(PARTS))
def test_a_crash_at_any_change_to_the_disk_loses_and_doubles_nothing(root: Path, part: int) -> None:
    assert count_steps() > 200  # blocks, results, manifests, epochs, sinks, dead letters, garbage
    seeds = range(FIRST_SEED + part, FIRST_SEED + SEEDS, PARTS)
    crashes = sum(crashed(root, seed, RESTLESS if seed % 10 == 9 else PLAIN) for seed in seeds)
    print(f"{len(seeds)} seeds: {crashes} crashes")
    assert crashes > len(seeds) * 0.8


def test_a_crash_at_any_change_to_an_object_store_loses_and_doubles_nothing(root: Path) -> None:
    scenarios = (PLAIN, PLAIN, RESTLESS, GROUPED, COPYING)
    assert count_steps(kind="object") > 100
    seeds = range(FIRST_SEED, FIRST_SEED + SEEDS // 25)
    crashes = sum(crashed(root, seed, scenarios[seed % 5], kind="object") for seed in seeds)
    assert crashes > len(seeds) * 0.8


@pytest.mark.parametrize("scenario", OTHERS.values(), ids=OTHERS)
def test_a_crash_loses_and_doubles_nothing_either_of(root: Path, scenario: Scenario) -> None:
    seeds = range(FIRST_SEED, FIRST_SEED + (3 if scenario.hot else SEEDS // 70))
    crashes = sum(crashed(root, seed, scenario) for seed in seeds)
    assert crashes > len(seeds) * 0.8


def test_keys_and_groups_are_hot_in_the_runs_that_are_meant_to_have_them(root: Path) -> None:
    world = World(root, batches=HOT.batches, scenario=HOT, seed=HOT.adaptations[0])
    world.session(batches=HOT.batches)
    last = newest(world.storage)
    assert last is not None
    states = {state for _, its, *_ in last.controller["hot"]["keys"] for state in its}
    assert len(states) > 3, states


@pytest.mark.slow
@pytest.mark.parametrize("scenario", OTHERS.values(), ids=OTHERS)
def test_thousands_of_crashes_lose_and_double_nothing_of(root: Path, scenario: Scenario) -> None:
    seeds = range(FIRST_SEED, FIRST_SEED + 3 * SEEDS)
    crashes = sum(crashed(root, seed, scenario) for seed in seeds)
    assert crashes > len(seeds) * 0.8


def test_a_copy_that_is_not_synced_is_found_out(root: Path) -> None:
    real = posix_storage.write_synced

    def write(path: Path, data: memoryview) -> None:
        if "/site-" in str(path):
            with path.open("xb") as file:
                file.write(data)
        else:
            real(path, data)

    def look() -> None:
        for seed in range(12, 60):
            crashed(root, seed, ISOLATED, kind="posix")

    with mock.patch.object(posix_storage, "write_synced", write), pytest.raises((AssertionError, StateError)):
        look()


def crashed(root: Path, seed: int, scenario: Scenario, kind: str = CHOSEN) -> int:
    """Crashes of one seed."""
    crashes = crash_and_recover(root / f"{seed}", seed, scenario, kind)
    shutil.rmtree(root / f"{seed}")
    return crashes


def test_a_batch_replayed_after_its_commit_publishes_it_once(root: Path) -> None:
    world = World(root)
    forgotten = iter([True, False] * BATCHES)
    while not world.ended:
        world.session(forget=lambda: next(forgotten))  # every batch comes twice
    assert_same(world.result(), expected(), "each batch replayed")


def named(storage: Storage) -> set[str]:
    """Files that manifests name, and those of which none does."""
    folders = ("blocks", "staged", "catalogs", "lists")
    return {name for folder in folders for name in storage.list(folder)}


def test_tasks_that_run_twice_leave_orphans_that_do_no_harm_and_are_collected(root: Path) -> None:
    world = World(root, Tricks(random.Random(1), rerun=1.0))
    world.session()
    assert_same(world.result(), expected(), "every task run twice")
    storage = world.storage
    manifest = newest(storage)
    assert manifest is not None
    assert named(storage) > manifest.file_names()
    collect_garbage(storage, keep=1)
    assert named(storage) == manifest.file_names()
    assert_same(world.result(), expected(), "after the collection")


def test_tasks_that_finish_after_their_batch_was_committed_by_another_attempt_do_no_harm(root: Path) -> None:
    world = World(root, Tricks(random.Random(2), linger=1.0))
    world.session()
    assert_same(world.result(), expected(), "every task finishes twice, the second time late")


def test_a_session_that_came_back_from_the_dead_can_change_nothing(root: Path) -> None:
    zombie = CrashRun(root, Tricks(random.Random(3)))
    zombie.batch({}, number=0)
    _let_go_of_the_lock(zombie)
    world = World(root, done=1)
    world.session(batches=2)
    before = sorted(p.name for q in queries() for p in (root / q.name).iterdir())
    with pytest.raises((FencedError, ManifestConflict), match="epoch"):
        zombie.batch({}, number=1)
    assert sorted(p.name for q in queries() for p in (root / q.name).iterdir()) == before
    world.session()
    assert_same(world.result(), expected(), "after the zombie")
    assert verify_chain(world.storage) >= 1


@pytest.fixture
def elsewhere(root: Path) -> Iterator[Path]:
    """A directory on another file system."""
    with tempfile.TemporaryDirectory(prefix="anabranch-", dir="/var/tmp") as folder:
        if Path(folder).stat().st_dev == root.stat().st_dev:
            pytest.skip("there is one file system only")
        yield Path(folder)


def test_the_same_steps_are_safe_when_the_sink_is_on_another_file_system(root: Path, elsewhere: Path) -> None:
    query = queries()[0]
    world = World(root / "w", kind="posix")
    world.session()
    results = sorted((root / "w" / query.name).glob(f"{query.name}-0*.parquet"))
    staged = results[0]
    (root / "staged").mkdir()
    os.link(staged, root / "staged" / staged.name)
    file = StagedFile(PosixStorage(root), ResultFile(query.name, staged.name, 0, 0, ""))

    def publish() -> ParquetSink:
        sink = ParquetSink(elsewhere / "sink")
        sink.open(query.name, _schema_of(staged))
        sink._place(file, elsewhere / "sink" / "q.parquet")
        return sink

    with failing_disk(Disk(elsewhere)) as disk:
        publish()
    steps = len(disk.steps)
    assert steps > 8
    for step in range(1, steps + 1):
        for fault in DiskFault:
            shutil.rmtree(elsewhere / "sink", ignore_errors=True)
            with pytest.raises(SimulatedCrash), failing_disk(Disk(elsewhere, step, fault)):
                publish()
            visible = list((elsewhere / "sink").glob("[!_]*")) if (elsewhere / "sink").exists() else []
            assert all(_readable(p) for p in visible), f"{fault} at step {step} left {visible}"
            publish()
            assert (elsewhere / "sink" / "q.parquet").read_bytes() == staged.read_bytes()


def test_an_older_checkpoint_beside_a_newer_sink_is_refused_until_the_later_files_are_gone(
    root: Path,
) -> None:
    world = World(root, kind="posix")
    world.session(batches=2)
    shutil.copytree(root / "ck", root / "copy")
    world.session()
    shutil.rmtree(root / "ck")
    (root / "copy").rename(root / "ck")
    world.done = 2
    with pytest.raises(AnabranchError, match="restored from an older copy") as refused:
        world.session()
    for query in queries():
        for file in (root / query.name).glob("*-000000000[2-9]-*.parquet"):
            file.unlink()
    assert "remove" in str(refused.value)
    world.session()
    assert_same(world.result(), expected(), "after going back to an older copy")


def _let_go_of_the_lock(run: CrashRun) -> None:
    """As if it held the lock on another machine: the lock is gone, but the session does not know."""
    assert run.fence._hold is not None
    run.fence._hold.release()


def _schema_of(file: Path) -> pa.Schema:
    return pq.read_schema(file)


def _readable(file: Path) -> bool:
    try:
        pq.read_table(file)
    except Exception:
        return False
    return True
