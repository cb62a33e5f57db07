"""A stream that falls silent: it pins the state of the others until the idle timeout, and no longer."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from anabranch.engine.local_driver import LocalRun
from anabranch.engine.reports import SlotReport
from anabranch.engine.settings import Settings
from anabranch.engine.task.slot_task import SlotTask
from anabranch.testing.stream_model import scratch
from tests.engine.nasty_runs import START, bind, rows, stream

A, B = stream("a"), stream("b", lateness_us=4)
TIMEOUT_S = 60


class Clock:
    """A clock that stands until it is set."""

    def __init__(self) -> None:
        self.now_s = 1_000_000.0

    def __call__(self) -> float:
        return self.now_s


@pytest.fixture
def clock() -> Clock:
    return Clock()


QUERIES = bind(
    (A, B),
    pairs="SELECT a.id AS a, b.id AS b FROM a [RANGE 10 MICROSECONDS], b [NOW] WHERE a.k = b.k",
    counts="SELECT a.k, COUNT(*) AS n FROM a [NOW], b [NOW] WHERE a.k = b.k GROUP BY a.k",
)
SETTINGS = Settings(sites=1, slots=1, max_blocks=1, idle_timeout_seconds=TIMEOUT_S)


@pytest.fixture
def root() -> Iterator[Path]:
    with scratch() as folder:
        yield folder


@pytest.fixture
def run(root: Path, clock: Clock) -> Iterator[LocalRun]:
    running = LocalRun(root, (A, B), QUERIES, settings=SETTINGS, clock=clock)
    yield running
    running.close()


def _watermark(run: LocalRun, name: str) -> int | None:
    assert run.loop.manifest is not None
    return next(s.watermark for s in run.loop.manifest.streams if s.name == name)


def test_a_silent_stream_follows_the_slowest_that_speaks(run: LocalRun, clock: Clock) -> None:
    run.batch({"a": rows((1, 0)), "b": rows((1, 0))})
    before = _watermark(run, "b")
    clock.now_s += TIMEOUT_S - 1
    run.batch({"a": rows((1, 100)), "b": rows()})
    assert _watermark(run, "b") == before
    clock.now_s += 1
    summary = run.batch({"a": rows((1, 200)), "b": rows()})
    assert _watermark(run, "b") == _watermark(run, "a")
    assert [e.kind for e in summary.events] == ["stream_idle"]
    assert [e.kind for e in run.batch({"a": rows((1, 300)), "b": rows()}).events] == []


def test_the_state_that_it_pinned_is_released_and_what_waited_for_it_is_final(
    run: LocalRun, clock: Clock
) -> None:
    run.batch({"a": rows((1, 0)), "b": rows((1, 0))})
    for number in range(1, 20):
        run.batch({"a": rows((1, 100 * number), first=number), "b": rows()})
    assert run.loop.manifest is not None
    pinned = sum(b.rows for b in run.loop.manifest.blocks)
    assert pinned >= 20
    assert not run.results("counts").num_rows
    clock.now_s += TIMEOUT_S
    for number in range(20, 23):
        run.batch({"a": rows((1, 100 * number), first=number), "b": rows()})
    assert sum(b.rows for b in run.loop.manifest.blocks) < 5
    assert run.results("counts").num_rows == 1


def test_rows_that_it_brings_later_are_late_below_the_others_and_join_above(
    run: LocalRun, clock: Clock
) -> None:
    run.batch({"a": rows((1, 0)), "b": rows((1, 0))})
    clock.now_s += TIMEOUT_S
    run.batch({"a": rows((1, 100), first=1), "b": rows()})
    run.batch({"a": rows(), "b": rows((1, 99), (1, 100), first=1)})
    assert run.results("pairs").sort_by("b").to_pylist() == [{"a": 0, "b": 0}, {"a": 1, "b": 2}]
    assert run.loop.manifest is not None
    assert {s.name: s.late for s in run.loop.manifest.streams} == {"a": 0, "b": 1}


def test_what_arrives_while_a_long_batch_runs_is_no_silence(
    run: LocalRun, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    run.batch({"a": rows((1, 0)), "b": rows((1, 0))})
    before = _watermark(run, "b")
    execute = run.loop._execute

    def takes_long(task: SlotTask) -> Sequence[SlotReport]:
        clock.now_s += 2 * TIMEOUT_S
        return execute(task)

    with monkeypatch.context() as patch:
        patch.setattr(run.loop, "_execute", takes_long)
        assert run.batch({"a": rows((1, 100), first=1), "b": rows()}).events == ()
    assert _watermark(run, "b") == before
    run.batch({"a": rows(), "b": rows((1, 95), first=1)})
    assert run.results("pairs").num_rows == 1  # with b's row of time 0; that of time 95 was not late
    assert run.loop.manifest is not None
    assert {s.late for s in run.loop.manifest.streams} == {0}
    silent = run.batch({"a": rows((1, 200), first=2), "b": rows()})
    assert not silent.events
    clock.now_s += TIMEOUT_S
    silent = run.batch({"a": rows((1, 300), first=3), "b": rows()})
    assert [e.kind for e in silent.events] == ["stream_idle"]


def test_when_all_are_silent_nothing_moves(run: LocalRun, clock: Clock) -> None:
    run.batch({"a": rows((1, 50)), "b": rows((1, 10))})
    before = [_watermark(run, name) for name in "ab"]
    clock.now_s += 10 * TIMEOUT_S
    run.batch({"a": rows(), "b": rows()})
    assert [_watermark(run, name) for name in "ab"] == before


def test_the_time_between_two_sessions_is_no_silence(run: LocalRun, root: Path, clock: Clock) -> None:
    run.batch({"a": rows((1, 0)), "b": rows((1, 0))})
    before = _watermark(run, "b")
    run.close()
    clock.now_s += 10 * TIMEOUT_S
    again = LocalRun(root, (A, B), QUERIES, settings=SETTINGS, clock=clock)
    again.batch({"a": rows((1, 100), first=1), "b": rows()})
    assert _watermark(again, "b") == before
    again.batch({"a": rows(), "b": rows((1, 50), (1, 100), first=1)})
    assert again.results("pairs").to_pylist() == [{"a": 1, "b": 2}]
    clock.now_s += TIMEOUT_S
    summary = again.batch({"a": rows((1, 200), first=2), "b": rows()})
    assert [e.kind for e in summary.events] == ["stream_idle"]
    assert _watermark(again, "b") == _watermark(again, "a")
    again.close()


def test_a_stream_that_comes_back_behind_the_others_catches_up(run: LocalRun, clock: Clock) -> None:
    run.batch({"a": rows((1, 0)), "b": rows((1, 0))})
    clock.now_s += TIMEOUT_S
    run.batch({"a": rows((1, 100), first=1), "b": rows()})
    for number in range(1, 4):  # b is late by 80 to begin with and comes on faster than a
        clock.now_s += TIMEOUT_S / 2
        run.batch(
            {
                "a": rows((1, 100 + 10 * number), first=1 + number),
                "b": rows((1, 20 + 40 * number), first=number),
            }
        )
    assert run.loop.manifest is not None
    assert {s.name: s.late for s in run.loop.manifest.streams} == {"a": 0, "b": 1}
    pairs = run.results("pairs").sort_by("b").to_pylist()
    assert pairs == [{"a": 0, "b": 0}, {"a": 1, "b": 2}, {"a": 4, "b": 3}]


@pytest.mark.parametrize("time", [50, -START], ids=["late", "rejected"])
def test_rows_that_are_refused_end_the_silence(run: LocalRun, clock: Clock, time: int) -> None:
    run.batch({"a": rows((1, 0)), "b": rows((1, 0))})
    clock.now_s += TIMEOUT_S
    run.batch({"a": rows((1, 100), first=1), "b": rows()})
    run.batch({"a": rows((1, 200), first=2), "b": rows((1, time), first=1)})
    assert _watermark(run, "b") == START + 100
