"""A step that fails before its manifest is published leaves nothing behind, and can be repeated."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from anabranch.adapt.boundary.boundary_state import BoundaryState
from anabranch.adapt.boundary.decider import AdaptiveDecider
from anabranch.adapt.boundary.decisions import Decisions
from anabranch.adapt.boundary.observed import Observed
from anabranch.engine.local_driver import LocalRun
from anabranch.engine.settings import Settings
from anabranch.engine.sinks.memory_sink import MemorySink
from anabranch.engine.sinks.sink import ResultBatch
from anabranch.errors import StateError
from anabranch.testing.stream_model import accepted_rows, expected_rows
from tests.engine.directed_runs import AB_C, BC_A, STREAMS, joined, steady_batches
from tests.engine.nasty_runs import bind
from tests.support.oracle_check import check_rows

QUERY = joined("a", "b", "c")
BATCHES = steady_batches(4)


class Broken(RuntimeError):
    """What goes wrong on purpose."""


class BreakingDecider(AdaptiveDecider):
    """Decides, and breaks before anybody hears of it, as often as it is told to."""

    def __init__(self) -> None:
        self.breaks = 0

    def decide(self, state: BoundaryState, observed: Observed) -> tuple[BoundaryState, Decisions]:
        decided = super().decide(state, observed)
        if self.breaks:
            self.breaks -= 1
            raise Broken
        return decided


class BreakingSink(MemorySink):
    breaks = False

    def publish(self, results: ResultBatch) -> None:
        if self.breaks:
            raise Broken
        super().publish(results)


@pytest.fixture
def decider() -> BreakingDecider:
    return BreakingDecider()


@pytest.fixture
def sink() -> BreakingSink:
    return BreakingSink()


@pytest.fixture
def run(tmp_path: Path, decider: BreakingDecider, sink: BreakingSink) -> Iterator[LocalRun]:
    opened = opened_again(tmp_path, sink, decider)
    yield opened
    opened.close()


def opened_again(root: Path, sink: MemorySink, decider: BreakingDecider | None = None) -> LocalRun:
    settings = Settings(sites=2, slots=1, rebalance="off", migration="off", sink_failures="stop")
    return LocalRun(root, STREAMS, [QUERY], sinks={QUERY.name: sink}, settings=settings, decider=decider)


def check(results: MemorySink) -> None:
    tables = {name: m.rows_for(QUERY) for name, m in accepted_rows(STREAMS, BATCHES).items()}
    check_rows(results.table(), expected_rows(QUERY, STREAMS, tables), what=QUERY.text)


def test_a_batch_that_failed_before_its_commit_is_repeated(
    run: LocalRun, decider: BreakingDecider, sink: BreakingSink
) -> None:
    for batch in BATCHES:
        decider.breaks = 2
        for _ in range(2):
            with pytest.raises(Broken):
                run.batch(batch)
        run.batch(batch)
    check(sink)


def test_a_request_is_carried_out_by_the_step_that_is_published(
    run: LocalRun, decider: BreakingDecider, sink: BreakingSink
) -> None:
    run.batch(BATCHES[0])
    run.loop.migrate(QUERY.name, BC_A)
    decider.breaks = 1
    with pytest.raises(Broken):
        run.batch(BATCHES[1])
    assert run.loop.tracks.plans[QUERY.name] == (AB_C, AB_C)
    run.batch(BATCHES[1])
    assert run.loop.tracks.plans[QUERY.name] == (BC_A, BC_A)
    for batch in BATCHES[2:]:
        run.batch(batch)
    check(sink)


def test_the_input_has_not_ended_when_the_step_that_says_so_failed(tmp_path: Path) -> None:
    decider, query = BreakingDecider(), "SELECT k, COUNT(*) AS n FROM a [RANGE 9 MICROSECONDS] GROUP BY k"
    (counted,) = bind(STREAMS, counted=query)
    run = LocalRun(tmp_path, STREAMS, [counted], decider=decider)
    run.batch(BATCHES[0])
    assert run.loop.manifest is not None
    before = run.loop.manifest
    decider.breaks = 1
    with pytest.raises(Broken):
        run.end_of_input()
    assert run.loop.manifest == before
    run.end_of_input()
    assert run.loop.manifest.streams[0].watermark != before.streams[0].watermark
    run.close()


def test_after_a_sink_failed_only_a_new_start_goes_on(
    tmp_path: Path, run: LocalRun, sink: BreakingSink
) -> None:
    run.batch(BATCHES[0])
    sink.breaks = True
    with pytest.raises(Broken):
        run.batch(BATCHES[1])
    sink.breaks = False
    with pytest.raises(StateError, match="start again from its checkpoint"):
        run.batch(BATCHES[2])
    run.close()
    again = opened_again(tmp_path, sink)
    for batch in BATCHES[2:]:
        again.batch(batch)
    again.close()
    check(sink)
