"""What the slots are told once: how it is read, refused and removed, and what a step still has to tell."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from pathlib import Path
from unittest import mock

import pytest

from anabranch.engine.local_driver import LocalRun
from anabranch.engine.settings import Settings
from anabranch.engine.step import batch_loop
from anabranch.engine.step.manifests import side_files
from anabranch.engine.task.worker import constants
from anabranch.state import CorruptionError, PosixStorage, block_lists, newest, side_file
from anabranch.state.manifest_codec import encode
from anabranch.state.paths import CATALOGS, CONSTANTS, LISTS
from anabranch.testing.stream_model import scratch
from tests.engine.nasty_runs import bind, rows, stream
from tests.state.samples import overwrite
from tests.support.crash_scenario import Scenario, crash_and_recover
from tests.support.crash_scenario import scratch as crash_scratch

A, B = stream("a"), stream("b")
FEW, MANY = 40, 160
SEEDS = 16
LISTED = Scenario(("pairs", "counts"))


def texts(count: int) -> dict[str, str]:
    """Joins with filters of their own, so that each has two states of its own."""
    return {
        f"q{i}": f"SELECT x.id, y.id AS other FROM a [RANGE 1 SECOND] x, b [RANGE 1 SECOND] y "
        f"WHERE x.k = y.k AND x.v >= {-i} AND y.v >= {-i}"
        for i in range(count)
    }


def started(root: Path, count: int) -> LocalRun:
    return LocalRun(
        root, (A, B), bind((A, B), **texts(count)), settings=Settings(sites=4, slots=1, sharing="off")
    )


def told(count: int) -> tuple[int, int]:
    """Bytes of a task and of a manifest, after a batch that has left two blocks of every query."""
    with scratch() as root:
        run = started(root, count)
        summary = run.batch({"a": rows((1, 0)), "b": rows((1, 0))})
        assert len(summary.manifest.blocks) == 2 * count
        task = run.loop._task(1, 0.0)
        run.close()
        return len(pickle.dumps(task)), len(encode(summary.manifest))


def test_what_a_step_tells_does_not_grow_with_the_queries(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(block_lists, "MOST_LOOSE", 16)
    monkeypatch.setattr(side_files, "MOST_RESULTS", 16)
    few, many = told(FEW), told(MANY)
    for before, after in zip(few, many, strict=True):
        assert after - before < 4 * (MANY - FEW), "a byte or two per query: a bit for each block"


def forget() -> None:
    constants._known.clear()
    block_lists.read_list.cache_clear()
    side_file.read_side_file.cache_clear()


def test_a_worker_that_knows_nothing_reads_what_it_needs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(block_lists, "MOST_LOOSE", 0)
    run = started(tmp_path, 2)
    run.batch({"a": rows((1, 0)), "b": rows((1, 0))})
    task = run.loop._task(1, 0.0)
    sent = pickle.dumps(task)
    forget()
    arrived = pickle.loads(sent)
    assert arrived.layout == task.layout
    assert set(arrived.blocks) == set(task.blocks)
    assert len(arrived.blocks) == 4
    assert arrived.work == task.work
    run.close()


def test_constants_are_not_unpickled_unless_they_have_the_digest_of_the_task(tmp_path: Path) -> None:
    run = started(tmp_path, 1)
    run.batch({"a": rows((1, 0))})
    file = run.loop._task(1, 0.0).constants
    overwrite(PosixStorage(tmp_path), file.name, pickle.dumps(forget))
    forget()
    with (
        mock.patch.object(constants.pickle, "loads", side_effect=AssertionError("unpickled")),
        pytest.raises(CorruptionError, match="digest"),
    ):
        run.batch({"a": rows((1, 0))})
    run.close()


def test_only_the_constants_of_the_running_session_stay(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(batch_loop, "COLLECT_EVERY", 1)
    storage = PosixStorage(tmp_path)
    for _ in range(3):
        run = started(tmp_path, 1)
        run.batch({"a": rows((1, 0))})
        run.close()
    assert len(storage.list(CONSTANTS)) == 1
    assert len(storage.list(CATALOGS)) == 1, "the same queries have the same catalog"


def test_a_catalog_that_is_gone_or_damaged_is_told(tmp_path: Path) -> None:
    run = started(tmp_path, 1)
    run.batch({"a": rows((1, 0))})
    run.close()
    storage = PosixStorage(tmp_path)
    (name,) = storage.list(CATALOGS)
    overwrite(storage, name, storage.read(name).replace(b"q0", b"q1"))
    forget()
    with pytest.raises(CorruptionError, match="checksum"):
        newest(storage)
    storage.delete(name)
    with pytest.raises(CorruptionError, match="none"):
        newest(storage)


@pytest.fixture
def everything_in_lists() -> Iterator[None]:
    with mock.patch.object(block_lists, "MOST_LOOSE", 0), mock.patch.object(side_files, "MOST_RESULTS", 0):
        yield


@pytest.mark.usefixtures("everything_in_lists")
def test_a_crash_at_any_step_harms_no_list_and_no_catalog() -> None:
    crashes = 0
    for seed in range(SEEDS):
        with crash_scratch("lists") as root:
            crashes += crash_and_recover(root, seed, LISTED)
    assert crashes >= SEEDS / 2


@pytest.mark.usefixtures("everything_in_lists")
def test_lists_go_when_their_blocks_have_gone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batch_loop, "COLLECT_EVERY", 1)
    run = started(tmp_path, 1)
    for second in range(8):
        ts = second * 1_000_000
        run.batch({"a": rows((1, ts)), "b": rows((1, ts))})
    run.close()
    assert 1 <= len(PosixStorage(tmp_path).list(LISTS)) <= 8
