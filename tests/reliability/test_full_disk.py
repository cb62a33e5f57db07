"""Disks that are full or may not be written to: a clear error, nothing lost, exact after the repair."""

from __future__ import annotations

import os
import random
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from anabranch.errors import AnabranchError, SinkError, StateError
from anabranch.spark.failures import explain_failure
from anabranch.state import PosixStorage, acquire, newest, verify_chain
from tests.support.crash_scenario import (
    CrashRun,
    Tricks,
    World,
    assert_same,
    expected,
    forget_processes_memory,
    often_collected,
    queries,
)
from tests.support.storages import CHOSEN

pytestmark = pytest.mark.skipif(
    os.geteuid() != 0 or CHOSEN != "posix", reason="only root can mount a small disk"
)


@contextmanager
def small_disk(folder: Path, kibibytes: int) -> Iterator[None]:
    folder.mkdir(parents=True)
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={kibibytes}k", "tmpfs", str(folder)], check=False
    )
    if mounted.returncode:
        pytest.skip("this machine lets nobody mount")
    try:
        yield
    finally:
        forget_processes_memory()
        subprocess.run(["umount", "--lazy", str(folder)], check=True)


def _grow(folder: Path) -> None:
    subprocess.run(["mount", "-o", "remount,size=16m", str(folder)], check=True)


@pytest.mark.parametrize("where", ["ck", "pairs"], ids=["checkpoint", "sink"])
@pytest.mark.parametrize("kibibytes", [16, 32, 48, 64, 80, 100, 120])
def test_a_full_disk_stops_the_run_and_nothing_is_lost_once_there_is_space(
    tmp_path: Path, where: str, kibibytes: int
) -> None:
    with often_collected(), small_disk(tmp_path / where, kibibytes):
        world = World(tmp_path)
        failure: Exception | None = None
        try:
            world.session()
        except (OSError, AnabranchError) as error:
            failure = error
        if failure is not None:
            told = str(explain_failure(failure))
            assert "No space left" in told or "disk is full" in told, repr(failure)
            _grow(tmp_path / where)
            world.session()
        assert_same(world.result(), expected(), f"{where} of {kibibytes} KiB")
        assert verify_chain(PosixStorage(tmp_path / "ck")) >= 1


def test_a_read_only_checkpoint_is_refused_and_serves_again_when_it_can_be_written(tmp_path: Path) -> None:
    with small_disk(tmp_path / "ck", 4096):
        world = World(tmp_path)
        world.session(batches=2)
        subprocess.run(["mount", "-o", "remount,ro", str(tmp_path / "ck")], check=True)
        with pytest.raises(StateError, match=r"cannot write to the checkpoint: .*Read-only file system"):
            world.session()
        subprocess.run(["mount", "-o", "remount,rw", str(tmp_path / "ck")], check=True)
        world.session()
        assert_same(world.result(), expected(), "after a read-only interval")


def test_a_file_where_the_checkpoint_or_a_sink_should_be_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(StateError, match=r"cannot write to the checkpoint: .*(Not a directory|File exists)"):
        acquire(PosixStorage(tmp_path / "file"))
    (tmp_path / queries()[0].name).touch()
    with pytest.raises(SinkError, match=r"cannot write to sink"):
        CrashRun(tmp_path, Tricks(random.Random(0)))
    assert newest(PosixStorage(tmp_path / "ck")) is None
    (tmp_path / queries()[0].name).unlink()
    CrashRun(tmp_path, Tricks(random.Random(0))).close()  # the refusal released the lock
