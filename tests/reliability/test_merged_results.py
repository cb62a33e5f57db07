"""Results that are merged and put into folders: a crash at any change loses and doubles nothing."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from unittest.mock import patch

import pyarrow as pa
import pytest

from anabranch.engine.sinks import result_merge
from anabranch.engine.sinks.parquet_sink import ParquetSink
from anabranch.engine.sinks.result_names import ResultName
from anabranch.errors import AnabranchError
from tests.support.crash_scenario import (
    MERGED,
    PARTED,
    Scenario,
    World,
    assert_same,
    count_steps,
    often_collected,
    scratch,
)
from tests.support.disk_faults import Disk, DiskFault, failing_disk
from tests.support.faults import SimulatedCrash

SCENARIOS = {"merged": MERGED, "in folders": PARTED}


@pytest.fixture
def root() -> Iterator[Path]:
    with scratch("merged") as folder, often_collected():
        yield folder


def die_and_go_on(root: Path, scenario: Scenario, step: int, fault: DiskFault) -> None:
    """Die at a change of the sink, start again, run to the end, and judge."""
    world = World(root, batches=scenario.batches, scenario=scenario)
    disk = Disk(root, step, fault, seed=step, only=scenario.only)
    while not world.ended:
        try:
            with failing_disk(disk):
                world.session()
        except SimulatedCrash:
            disk = disk.next_life(None, fault)
    assert_same(world.result(), world.expected(), f"{fault} change {step}: {disk.steps[-1:]}")
    assert not [folder for folder in root.iterdir() if folder.name.endswith((".probe0", ".probe1"))]
    ParquetSink(root / "ones", compact_every=2).open("ones", pa.schema([("k", pa.int64())]))
    assert not list(root.glob(".ones.merging.*"))
    shutil.rmtree(root)


@pytest.mark.parametrize("scenario", SCENARIOS.values(), ids=SCENARIOS)
def test_a_crash_at_a_change_of_the_sink_loses_and_doubles_nothing(root: Path, scenario: Scenario) -> None:
    faults = list(DiskFault)
    for number, step in enumerate(range(1, count_steps(scenario) + 1, 3)):
        die_and_go_on(root / str(step), scenario, step, faults[number % len(faults)])


@pytest.mark.slow
@pytest.mark.parametrize("fault", DiskFault)
@pytest.mark.parametrize("scenario", SCENARIOS.values(), ids=SCENARIOS)
def test_every_crash_at_every_change_of_the_sink_loses_and_doubles_nothing(
    root: Path, scenario: Scenario, fault: DiskFault
) -> None:
    for step in range(1, count_steps(scenario) + 1):
        die_and_go_on(root / str(step), scenario, step, fault)


def test_results_become_few_files(root: Path) -> None:
    world = World(root, batches=7, scenario=MERGED)
    world.session()
    assert_same(world.result(), world.expected(), "merged")
    names = [ResultName.of("ones", f.name) for f in (root / "ones").iterdir()]
    levels = sorted(name.level for name in names if name is not None)
    assert max(levels) >= 2
    assert levels.count(0) <= 2 * MERGED.compact_every  # two slots write a file each


def test_that_the_step_under_way_is_merged_is_found_out(root: Path) -> None:
    """It may come again after a crash, and must find its files under their names."""
    real = result_merge.files_due

    def files_due(found, *, before, every):  # type: ignore[no-untyped-def]
        return real(found, before=(before[0], before[1] + 1), every=every)

    def look() -> None:
        for step in range(1, count_steps(MERGED) + 1, 2):
            die_and_go_on(root / str(step), MERGED, step, DiskFault.AFTER)

    count_steps(MERGED)
    with (
        patch.object(result_merge, "files_due", files_due),
        pytest.raises((AssertionError, AnabranchError), match=r"too many|does not know"),
    ):
        look()


def test_that_files_are_removed_before_the_new_ones_are_there_is_found_out(root: Path) -> None:
    """The obvious way: put the merged file into the folder, then remove the small ones."""

    def in_place(one: Path, other: Path) -> None:
        for file in other.iterdir():
            if not (one / file.name).exists():
                file.unlink()
        for file in one.iterdir():
            file.replace(other / file.name)

    def look() -> None:
        for step in range(20, count_steps(MERGED) + 20, 2):
            die_and_go_on(root / str(step), MERGED, step, DiskFault.BEFORE)

    count_steps(MERGED)
    with (
        patch("tests.support.disk_faults._real_exchange", in_place),
        pytest.raises(AssertionError, match="lost"),
    ):
        look()
