"""One slot for little work: the same results, and no shuffle where it would cost more than it brings."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from anabranch.engine.local_driver import LocalRun
from anabranch.engine.reports import SiteReport, SlotReport, StreamReport
from anabranch.engine.settings import Settings
from anabranch.engine.sinks.memory_sink import MemorySink
from anabranch.engine.step import slot_choice
from anabranch.engine.step.slot_choice import MOST_BUSY_S, is_little
from anabranch.testing.oracle_compare import assert_same_rows
from tests.engine.nasty_runs import bind, rows, stream
from tests.support.generated import Batch, Case, Phase
from tests.support.oracle_check import check_case


def report(slot: int, count: int, busy_s: float) -> SlotReport:
    return SlotReport(
        slot, streams={"a": StreamReport(accepted=count)}, sites=[SiteReport(slot, busy_s=busy_s)]
    )


@pytest.mark.parametrize(
    ("counts", "busy_s", "little"),
    [
        pytest.param((40, 50), MOST_BUSY_S / 3, True, id="few rows, little work"),
        pytest.param((60, 50), MOST_BUSY_S / 3, False, id="many rows of all slots together"),
        pytest.param((40, 50), MOST_BUSY_S * 0.6, False, id="much work of all slots together"),
    ],
)
def test_a_batch_is_little_by_its_rows_and_by_its_work(
    counts: tuple[int, int], busy_s: float, little: bool
) -> None:
    reports = [report(slot, count, busy_s) for slot, count in enumerate(counts)]
    assert is_little(reports, most_rows=100) is little


def test_who_gives_the_number_of_slots_gets_it() -> None:
    assert Settings().resolved(cores=4).little_rows > 0
    assert Settings(slots=4).resolved(cores=4).little_rows == 0
    assert Settings(slots=4, one_slot_rows=7).resolved(cores=2).little_rows == 7
    # Settings that change later are resolved a second time.
    assert Settings().resolved(cores=4).resolved(cores=4).little_rows > 0


def test_slots_come_and_go_with_the_work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(slot_choice, "MOST_BUSY_S", math.inf)  # kernels may have to be compiled first
    a = stream("a")
    queries = bind([a], q="SELECT k, count(*) AS n FROM a [ROWS 1000] GROUP BY k")
    run = LocalRun(tmp_path, [a], queries, settings=Settings(sites=4, slots=2, one_slot_rows=6))
    seen = [
        len(run.batch({"a": rows(*((i % 5, 100 * number + i) for i in range(count)))}).reports)
        for number, count in enumerate((3, 2, 9, 9, 1, 1))
    ]
    run.close()
    # As many as the batch before was worth: 9 rows come to one slot, and only then to two.
    assert seen == [2, 1, 1, 2, 2, 1]


SECONDS = "[RANGE 9 SECONDS]"
STREAMS = (stream("a"), stream("b"), stream("c"))
SIZES = (3, 2, 40, 40, 1, 3, 30, 2)
BATCHES: list[Batch] = [
    {s.name: rows(*((i % 7, 100 * number + i) for i in range(size))) for s in STREAMS}
    for number, size in enumerate(SIZES)
]


def test_joins_are_the_same_while_slots_come_and_go(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(slot_choice, "MOST_BUSY_S", math.inf)
    queries = bind(
        STREAMS,
        pairs=f"SELECT a.id AS a, b.id AS b FROM a {SECONDS}, b {SECONDS} WHERE a.k = b.k",
        chain=f"SELECT a.id AS a, c.id AS c FROM a {SECONDS}, b {SECONDS}, c {SECONDS} "
        "WHERE a.k = b.k AND b.v = c.v",
    )
    settings = Settings(sites=4, slots=2, max_blocks=2, one_slot_rows=20)
    phases = [Phase(queries, settings, tuple(part)) for part in (BATCHES[:5], BATCHES[5:])]
    check_case(Case(STREAMS, tuple(phases)))


def test_windows_are_the_same_while_slots_come_and_go(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(slot_choice, "MOST_BUSY_S", math.inf)
    window = "window(ts, '150 microseconds')"
    query = f"SELECT k, window.start, count(*) AS n, max(id) AS hi FROM a GROUP BY k, {window}"
    found = []
    for most in (0, 20):
        sink = MemorySink()
        settings = Settings(sites=4, slots=2, max_blocks=2, one_slot_rows=most)
        for part, is_last in ((BATCHES[:5], False), (BATCHES[5:], True)):
            run = LocalRun(
                tmp_path / str(most),
                STREAMS[:1],
                bind(STREAMS[:1], q=query),
                sinks={"q": sink},
                settings=settings,
            )
            for batch in part:
                run.batch({"a": batch["a"]})
            if is_last:
                run.end_of_input()
            run.close()
        found.append(sink.table())
    assert found[0].num_rows > 20
    assert_same_rows(found[1], found[0], what="windows")
