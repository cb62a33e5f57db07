"""A run is stopped between batches, whoever asks, and its checkpoint is free when it has ended."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import anabranch as ab
from anabranch.adapt.events import EventKind
from anabranch.engine.local_driver import LocalRun
from anabranch.engine.settings import Settings
from anabranch.spark.run_driver import RunDriver
from anabranch.state.fence import acquire
from anabranch.state.storage import PosixStorage
from tests.engine.nasty_runs import bind, stream

LONG_S = 30.0
A = stream("a")


class Query:
    """Spark's handle of a query that runs until it is stopped."""

    def __init__(self, *, plans: bool = False) -> None:
        self.ended = threading.Event()
        self.status = {"isTriggerActive": plans}

    @property
    def isActive(self) -> bool:
        return not self.ended.is_set()

    def awaitTermination(self, timeout: float | None = None) -> bool:
        return self.ended.wait(timeout)

    def stop(self) -> None:
        self.ended.set()

    def exception(self) -> None:
        return None


class Interrupted(Exception):
    """What `await_interrupt` raises."""


def interrupted() -> None:
    raise Interrupted


def local_run(root: Path, **sinks: Any) -> LocalRun:
    settings = Settings(sites=1, slots=1, sink_failures="stop")
    return LocalRun(root, [A], bind((A,), q="SELECT id FROM a"), sinks=sinks or None, settings=settings)


def process(driver: RunDriver, batch: int) -> None:
    driver.process(batch, offsets=f"{batch}", source_id="local", stopped=interrupted)


def test_stop_waits_for_the_batch_under_way_and_none_begins_after_it(tmp_path: Path) -> None:
    publishing, go_on = threading.Event(), threading.Event()

    def publish(results: ab.ResultBatch) -> None:
        publishing.set()
        assert go_on.wait(LONG_S)

    local = local_run(tmp_path, q=SimpleNamespace(open=lambda *_: None, publish=publish))
    driver, query = RunDriver(local.loop, local.fence), Query()
    driver.begin(lambda: query, step=local.loop.step)  # type: ignore[arg-type]
    batch = threading.Thread(target=process, args=(driver, 0))
    batch.start()
    assert publishing.wait(LONG_S)
    ender = threading.Thread(target=driver.stop)
    ender.start()
    assert not query.ended.is_set(), "the batch is under way"
    go_on.set()
    ender.join(LONG_S)
    batch.join(LONG_S)
    assert query.ended.is_set()
    assert not driver.is_active
    assert [p.batch for p in driver.record.progress] == [0]
    with pytest.raises(Interrupted):
        process(driver, 1)
    assert driver.error is None
    acquire(PosixStorage(tmp_path)).release()


def test_a_batch_that_spark_plans_is_waited_for_before_its_query_is_stopped(tmp_path: Path) -> None:
    local = local_run(tmp_path)
    driver, query = RunDriver(local.loop, local.fence), Query(plans=True)
    driver.begin(lambda: query, step=local.loop.step)  # type: ignore[arg-type,return-value]
    ender = threading.Thread(target=driver.stop)
    ender.start()
    assert wait_for(lambda: driver.is_stopping)
    assert not query.ended.is_set()
    with pytest.raises(Interrupted):
        process(driver, 0)
    ender.join(LONG_S)
    assert query.ended.is_set()


def test_a_run_has_ended_only_when_what_was_begun_beside_it_has(tmp_path: Path) -> None:
    local = local_run(tmp_path)
    driver, query, warm = RunDriver(local.loop, local.fence), Query(), threading.Event()
    driver.settle = lambda: warm.wait(LONG_S) and None
    driver.begin(lambda: query, step=local.loop.step)  # type: ignore[arg-type,return-value]
    ender = threading.Thread(target=driver.stop)
    ender.start()
    assert query.ended.wait(LONG_S)
    assert driver.is_active
    warm.set()
    ender.join(LONG_S)
    assert not driver.is_active


def test_a_listener_may_stop_the_run_in_its_own_batch(tmp_path: Path) -> None:
    class Stops(ab.Listener):
        def on_progress(self, progress: ab.Progress) -> None:
            driver.stop()

    local = local_run(tmp_path)
    driver, query = RunDriver(local.loop, local.fence, listeners=[Stops()]), Query()
    driver.begin(lambda: query, step=local.loop.step)  # type: ignore[arg-type]
    process(driver, 0)
    assert driver.wait(LONG_S)


def test_what_is_noticed_in_mid_batch_is_told_at_once_and_a_listener_may_stop_the_run(tmp_path: Path) -> None:
    class Stops(ab.Listener):
        def on_event(self, event: ab.Event) -> None:
            if event.kind is ab.EventKind.KAFKA_SILENT:
                driver.stop()

    publishing, go_on = threading.Event(), threading.Event()

    def publish(results: ab.ResultBatch) -> None:
        publishing.set()
        assert go_on.wait(LONG_S)

    local = local_run(tmp_path, q=SimpleNamespace(open=lambda *_: None, publish=publish))
    driver, query = RunDriver(local.loop, local.fence, listeners=[Stops()]), Query()
    driver.begin(lambda: query, step=local.loop.step)  # type: ignore[arg-type,return-value]
    batch = threading.Thread(target=process, args=(driver, 0))
    batch.start()
    assert publishing.wait(LONG_S)
    driver.tell(ab.EventKind.KAFKA_SILENT, "waiting for Kafka")
    assert [event.message for event in driver.record.events] == ["waiting for Kafka"]
    assert not query.ended.is_set(), "the batch is under way"
    go_on.set()
    assert driver.wait(LONG_S)
    batch.join(LONG_S)
    driver.tell(ab.EventKind.KAFKA_ANSWERS, "too late: the run has ended")
    assert len(driver.record.events) == 1


def test_what_a_batch_raises_is_why_the_run_failed_and_listeners_hear_it_last(tmp_path: Path) -> None:
    told: list[object] = []

    class Hears(ab.Listener):
        def on_end(self, error: ab.AnabranchError | None) -> None:
            told.append(error)

    def publish(results: ab.ResultBatch) -> None:
        raise OSError(28, "No space left on device")

    local = local_run(tmp_path, q=SimpleNamespace(open=lambda *_: None, publish=publish))
    driver, query = RunDriver(local.loop, local.fence, listeners=[Hears()]), Query()
    driver.begin(lambda: query, step=local.loop.step)  # type: ignore[arg-type]
    with pytest.raises(OSError, match="No space"):
        process(driver, 0)
    query.stop()
    assert driver.wait(LONG_S)
    assert "disk is full" in str(driver.error)
    assert told == [driver.error]


def test_a_batch_beside_sparks_query_that_fails_ends_the_run_though_no_other_batch_comes(
    tmp_path: Path,
) -> None:
    def publish(results: ab.ResultBatch) -> None:
        raise ValueError("no room")

    local = local_run(tmp_path, q=SimpleNamespace(open=lambda *_: None, publish=publish))
    driver, query = RunDriver(local.loop, local.fence), Query()
    driver.begin(lambda: query, step=local.loop.step)  # type: ignore[arg-type,return-value]
    driver.beside.begin(lambda: driver.process(0, offsets="0", source_id="local", stopped=None))
    assert driver.wait(LONG_S)
    assert query.ended.is_set()
    assert "no room" in str(driver.error)


def test_a_batch_beside_sparks_query_does_not_run_when_the_run_is_being_stopped(tmp_path: Path) -> None:
    local = local_run(tmp_path)
    driver, query = RunDriver(local.loop, local.fence), Query()
    driver.begin(lambda: query, step=local.loop.step)  # type: ignore[arg-type,return-value]
    driver.is_stopping = True
    driver.beside.begin(lambda: driver.process(0, offsets="0", source_id="local", stopped=None))
    driver.beside.wait()
    driver.stop()
    assert driver.error is None
    assert local.loop.manifest is None


def test_a_run_that_ended_by_itself_was_not_stopped(tmp_path: Path) -> None:
    local = local_run(tmp_path)
    driver, query = RunDriver(local.loop, local.fence), Query()
    driver.begin(lambda: query, finish=lambda: iter(()))  # type: ignore[arg-type]
    query.stop()
    assert driver.wait(LONG_S)
    driver.stop()
    assert not driver.is_stopping


def test_a_query_that_comes_lets_spark_begin_anew_and_the_batch_comes_again(tmp_path: Path) -> None:
    local = local_run(tmp_path)
    driver, launched = RunDriver(local.loop, local.fence), [Query(), Query()]
    begun: list[Query] = []

    def launch() -> Any:
        begun.append(launched[len(begun)])
        return begun[-1]

    driver.begin(launch, finish=lambda: iter(()))
    process(driver, 0)
    local.add("more", "SELECT k FROM a")
    process(driver, 1)  # with its manifest the query is there, and Spark sends no rows for it
    with pytest.raises(Interrupted):
        process(driver, 2)
    assert launched[0].ended.wait(LONG_S)
    assert wait_for(lambda: len(begun) == 2 and not driver.is_stale)
    process(driver, 2)
    assert [p.batch for p in driver.record.progress] == [0, 1, 2]
    assert [e.kind for e in driver.record.events if e.kind is EventKind.INGEST_RESTARTED]
    driver.stop()
    assert launched[1].ended.is_set()


def wait_for(condition: Callable[[], bool]) -> bool:
    end = time.monotonic() + LONG_S
    while not condition() and time.monotonic() < end:
        threading.Event().wait(0.01)
    return condition()
