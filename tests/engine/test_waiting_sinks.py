"""A sink that fails waits alone: its results are kept and given to it later, once and in order."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from unittest import mock

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from anabranch.adapt.events import EventKind
from anabranch.cli.inspect.queries import query_costs
from anabranch.engine.local_driver import LocalRun
from anabranch.engine.settings import Settings
from anabranch.engine.sinks.backlog import Backlog, owed_results
from anabranch.engine.sinks.memory_sink import MemorySink
from anabranch.engine.sinks.parquet_sink import ParquetSink
from anabranch.engine.sinks.sink import ResultBatch, Sink
from anabranch.engine.step import delivery, waiting_sinks
from anabranch.engine.step.batch_loop import COLLECT_EVERY
from anabranch.errors import SinkError
from anabranch.plan.logical import Query
from anabranch.state.paths import UNDELIVERED
from anabranch.testing.stream_model import accepted_rows, expected_rows
from tests.engine.directed_runs import STREAMS, joined, steady_batches
from tests.support.generated import Batch
from tests.support.oracle_check import check_rows
from tests.support.storages import storage_at

GOOD, BAD = joined("a", "b", name="good"), joined("b", "c", name="bad")
SETTINGS = Settings(sites=2, slots=2, rebalance="off", keep_manifests=2)
BATCHES = steady_batches(COLLECT_EVERY + 4)


class Recorder(MemorySink):
    """A sink that fails when it is told to, and remembers in which order it was given what."""

    def __init__(self) -> None:
        super().__init__()
        self.fails = False
        self.numbers: list[int] = []

    def publish(self, results: ResultBatch) -> None:
        if self.fails:
            raise OSError("no space left\non the device")
        self.numbers.append(results.number)
        super().publish(results)


class Clock:
    """Time that passes when a test says so."""

    now = 1e9

    def __call__(self) -> float:
        return self.now


def started(
    root: Path, bad: Sink, good: Sink, *, clock: Clock | None = None, settings: Settings = SETTINGS
) -> LocalRun:
    sinks = {"good": good, "bad": bad}
    return LocalRun(root, STREAMS, [GOOD, BAD], sinks=sinks, settings=settings, clock=clock or Clock())


def kinds(run: LocalRun) -> list[str]:
    return [str(event.kind) for event in run.record.events if "sink" in event.kind]


def check(
    query: Query, batches: Sequence[Batch], found: pa.Table, *, first: int = 0, last: int | None = None
) -> None:
    """Compare with the oracle over the rows of some batches."""
    last = len(batches) if last is None else last
    tables = {name: m.rows_for(query, first, last) for name, m in accepted_rows(STREAMS, batches).items()}
    check_rows(found, expected_rows(query, STREAMS, tables), what=query.name)


def written(folder: Path) -> pa.Table:
    return pa.concat_tables(pq.read_table(file) for file in sorted(folder.glob("*.parquet")))


def test_others_go_on_and_the_sink_gets_all_of_it_later_in_order(tmp_path: Path) -> None:
    bad, good, clock = Recorder(), MemorySink(), Clock()
    run = started(tmp_path, bad, good, clock=clock)
    run.batch(BATCHES[0])
    bad.fails = True
    for batch in BATCHES[1:-2]:  # files are collected meanwhile
        summary = run.batch(batch)
    rows, why = summary.undelivered["bad"]
    assert (rows > 0, why) == (True, "no space left")
    listed = {cost.query: cost for cost in query_costs(run.storage, summary.manifest)}
    assert (listed["bad"].undelivered, listed["bad"].sink_failure) == (rows, why)
    assert listed["good"].sink_failure is None
    told = run.record.progress[-1].queries
    assert told["bad"].to_json()["sinkFailure"] == "no space left"
    assert "sinkFailure" not in told["good"].to_json()
    bad.fails, clock.now = False, clock.now + 1000
    run.batch(BATCHES[-2])
    assert run.batch(BATCHES[-1]).undelivered == {}
    run.close()
    assert bad.numbers == sorted(set(bad.numbers))
    assert kinds(run) == ["sink_failed", "sink_recovered"]
    assert not run.storage.list(UNDELIVERED)
    check(GOOD, BATCHES, good.table())
    check(BAD, BATCHES, bad.table())


def test_it_is_tried_again_after_pauses_that_grow(tmp_path: Path) -> None:
    bad, clock, tried = Recorder(), Clock(), []
    bad.fails = True
    run = started(tmp_path, bad, MemorySink(), clock=clock)
    run.batch(BATCHES[0])
    for _ in range(20):
        clock.now += 1.0
        with mock.patch.object(bad, "publish", side_effect=OSError("still full")) as publish:
            run.loop.try_sinks()
        tried.append(publish.call_count)
    run.close()
    assert [second for second, count in enumerate(tried, 1) if count] == [1, 3, 7, 15]
    assert max(tried) == 1


def test_a_directory_that_cannot_be_written_gets_every_result_once(tmp_path: Path) -> None:
    """Through crashes between all that has to be written: notes, results, and the step that is delivered."""
    out, good = tmp_path / "out", tmp_path / "good"

    def again(root: Path = tmp_path / "ck") -> LocalRun:
        return started(root, ParquetSink(out), ParquetSink(good))

    run = again()
    run.batch(BATCHES[0])
    shutil.move(out, tmp_path / "kept")
    out.touch()  # a file where the directory should be: neither opened nor written to
    run.batch(BATCHES[1])
    with mock.patch.object(Backlog, "keep", side_effect=InterruptedError), pytest.raises(InterruptedError):
        run.batch(BATCHES[2])
    run.close()
    run = again()
    assert [owed.batch for owed in owed_results(run.storage)] == [1, 2]
    with mock.patch.object(delivery, "note_delivered", side_effect=InterruptedError):  # noqa: SIM117
        with pytest.raises(InterruptedError):
            run.batch(BATCHES[3])
    run.close()
    run = again()
    run.batch(BATCHES[4])
    assert [owed.batch for owed in owed_results(run.storage)] == [1, 2, 3, 4]
    run.close()
    out.unlink()
    shutil.move(tmp_path / "kept", out)
    run = again()
    with mock.patch.object(Backlog, "taken", side_effect=InterruptedError), pytest.raises(InterruptedError):
        run.batch(BATCHES[5])
    run.close()
    run = again()
    for batch in BATCHES[6:]:
        run.batch(batch)
    run.close()
    assert not owed_results(run.storage)
    for query, folder in ((BAD, out), (GOOD, good)):
        check(query, BATCHES, written(folder))


@pytest.mark.parametrize("setting", ["sink_backlog_steps", "sink_backlog_mb"])
def test_its_query_ends_alone_when_too_much_waits(tmp_path: Path, setting: str) -> None:
    bad, good, clock = Recorder(), MemorySink(), Clock()
    bad.fails = True
    settings = replace(SETTINGS, **{setting: 3})
    with mock.patch.object(waiting_sinks, "MEBIBYTE", 1024):
        run = started(tmp_path, bad, good, clock=clock, settings=settings)
        for batch in BATCHES:
            run.batch(batch)
        run.close()
    assert set(run.loop.failures) == {"bad"}
    why = run.loop.failures["bad"]
    assert "no space left" in why
    assert f"more than {setting} = 3 allows" in why
    check(GOOD, BATCHES, good.table())
    bad.fails = False  # what was found before it ended is not lost
    run = started(tmp_path, bad, good, clock=clock, settings=settings)
    run.loop.try_sinks()
    run.close()
    failed_at = next(e.batch for e in run.record.events if e.kind is EventKind.QUERY_FAILED)
    assert failed_at
    given = len(bad.numbers)
    assert 0 < given < len(BATCHES)
    check(BAD, BATCHES, bad.table(), last=given)


def test_a_query_that_is_dropped_leaves_what_its_sink_does_not_take(tmp_path: Path) -> None:
    bad, good = Recorder(), MemorySink()
    run = started(tmp_path, bad, good)
    run.batch(BATCHES[0])
    bad.fails = True
    run.batch(BATCHES[1])
    run.drop("bad")
    for batch in BATCHES[2:5]:
        run.batch(batch)
    run.add("bad", BAD.text, other := MemorySink())
    for batch in BATCHES[5:]:
        run.batch(batch)
    run.close()
    (event,) = (e for e in run.record.events if e.kind is EventKind.SINK_GIVEN_UP)
    kept = pa.concat_tables(pq.read_table(run.storage.root / name) for name in event.data["files"])  # type: ignore[attr-defined]
    check(BAD, BATCHES, pa.concat_tables([bad.table(), kept]), last=3)
    check(BAD, BATCHES, other.table(), first=6)


def test_damaged_results_end_their_query_and_are_not_given(tmp_path: Path) -> None:
    bad, good = Recorder(), MemorySink()
    bad.fails = True
    run = started(tmp_path, bad, good)
    for batch in BATCHES[:3]:
        run.batch(batch)
    run.close()
    name = owed_results(run.storage)[0].files[0].name
    file = tmp_path / UNDELIVERED / name
    data = bytearray(file.read_bytes())
    data[len(data) // 2] ^= 1
    file.write_bytes(data)
    bad.fails = False
    run = started(tmp_path, bad, good)
    for batch in BATCHES[3:]:
        run.batch(batch)
    run.close()
    assert "damaged" in run.loop.failures["bad"]
    assert bad.table().num_rows == 0
    check(GOOD, BATCHES, good.table())


def test_a_run_is_not_complete_while_results_wait(tmp_path: Path) -> None:
    bad = Recorder()
    run = started(tmp_path, bad, MemorySink())
    run.batch(BATCHES[0])
    run.loop.delivery.check_all_taken()
    bad.fails = True
    run.batch(BATCHES[1])
    with pytest.raises(SinkError, match=r"'bad': .* results were not taken by its sink: no space left"):
        run.loop.delivery.check_all_taken()
    bad.fails = False
    assert [e.kind for e in run.loop.try_sinks(now=True)] == [EventKind.SINK_RECOVERED]
    run.loop.delivery.check_all_taken()
    run.close()


def test_an_object_store_keeps_them_too(tmp_path: Path) -> None:
    bad = Recorder()
    run = LocalRun(
        tmp_path,
        STREAMS,
        [BAD],
        sinks={"bad": bad},
        settings=SETTINGS,
        storage=storage_at(tmp_path, "object"),
    )
    bad.fails = True
    for batch in BATCHES[:-1]:
        run.batch(batch)
    bad.fails = False
    run.loop.try_sinks(now=True)
    run.batch(BATCHES[-1])
    run.close()
    check(BAD, BATCHES, bad.table())
