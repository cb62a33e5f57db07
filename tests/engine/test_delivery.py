"""What sinks are given, and how often, through steps, failures and restarts."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

from anabranch.engine.local_driver import LocalRun
from anabranch.engine.sinks.sink import ResultBatch
from anabranch.engine.step.batch_loop import COLLECT_EVERY
from anabranch.errors import SinkError, StateError
from anabranch.state.manifest import ManifestKey
from anabranch.state.manifest_log import manifest_keys, manifest_name
from anabranch.state.paths import DELIVERED, MANIFESTS
from tests.engine.directed_runs import STREAMS, TWO_SITES, joined, steady_batches
from tests.support.storages import storage_at


class Recorder:
    """A sink that remembers the numbers it was called with; it fails where it is told to."""

    def __init__(self) -> None:
        self.numbers: list[int] = []
        self.fails_at: int | None = None

    def open(self, query: str, schema: pa.Schema) -> None:
        """Nothing to prepare."""

    def publish(self, results: ResultBatch) -> None:
        if results.number == self.fails_at:
            raise SinkError("the sink is full")
        self.numbers.append(results.number)


def started(root: Path, sink: Recorder) -> LocalRun:
    settings = replace(TWO_SITES, sink_failures="stop")
    return LocalRun(root, STREAMS, [joined("a", "b")], sinks={"q": sink}, settings=settings)


def test_every_delivery_has_a_number_of_its_own_and_they_ascend(tmp_path: Path) -> None:
    sink = Recorder()
    run = started(tmp_path, sink)
    for batch in steady_batches(3):
        run.batch(batch)
        run.loop.step()
    run.close()
    assert sink.numbers == list(range(6))


def test_what_was_delivered_is_not_delivered_again_after_a_restart(tmp_path: Path) -> None:
    sink, (first, second) = Recorder(), steady_batches(2)
    run = started(tmp_path, sink)
    run.batch(first)
    run.loop.step()
    run.close()
    for _ in range(2):
        run = started(tmp_path, sink)
        run.close()
    run = started(tmp_path, sink)
    run.batch(second)
    run.close()
    assert sink.numbers == [0, 1, 2]


def test_a_step_that_no_note_says_was_delivered_is_delivered_again_under_its_number(tmp_path: Path) -> None:
    sink = Recorder()
    run = started(tmp_path, sink)
    run.batch(*steady_batches(1))
    run.loop.step()
    run.close()
    for note in run.storage.list(DELIVERED):
        run.storage.delete(note)
    started(tmp_path, sink).close()
    assert sink.numbers == [0, 1, 1]


def test_after_a_failed_step_nothing_runs_until_the_session_starts_again(tmp_path: Path) -> None:
    sink, (first, second, third) = Recorder(), steady_batches(3)
    sink.fails_at = 1
    run = started(tmp_path, sink)
    run.batch(first)
    with pytest.raises(SinkError, match="full"):
        run.batch(second)
    for refused in (run.loop.step, lambda: run.batch(third)):
        with pytest.raises(StateError, match="start again from its checkpoint"):
            refused()
    run.close()
    sink.fails_at = None
    run = started(tmp_path, sink)
    run.batch(second, number=1)  # committed before: delivered now
    run.batch(third)
    run.close()
    assert sink.numbers == [0, 1, 2]


def test_a_step_without_new_rows_does_not_overtake_a_batch_that_spark_has_yet_to_repeat(
    tmp_path: Path,
) -> None:
    sink, (first, second) = Recorder(), steady_batches(2)
    sink.fails_at = 1
    run = started(tmp_path, sink)
    run.batch(first)
    with pytest.raises(SinkError, match="full"):
        run.batch(second)
    run.close()
    sink.fails_at = None
    run = started(tmp_path, sink)
    run.loop.step()
    run.batch(second, number=1)
    run.close()
    assert sink.numbers == [0, 1, 2]


def test_files_of_further_steps_are_collected_as_well(tmp_path: Path) -> None:
    run = started(tmp_path, Recorder())
    first, second = steady_batches(2)
    run.batch(first)
    run.batch(second)
    for _ in range(40):
        run.loop.step()
    run.close()
    assert len(run.storage.list(MANIFESTS)) < 2 * COLLECT_EVERY


def test_there_may_be_more_than_ten_thousand_steps(tmp_path: Path) -> None:
    storage = storage_at(tmp_path)
    for step in (9_999, 10_000, 10_001):
        storage.put_if_absent(manifest_name(ManifestKey(3, step)), b"{}")
    assert manifest_keys(storage) == [(3, 9_999), (3, 10_000), (3, 10_001)]
