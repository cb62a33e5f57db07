"""Eddies in the engine: rows follow what stations report, a restart changes nothing, and users are told."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa
import pytest

from anabranch.adapt.events import EventKind
from anabranch.engine.local_driver import LocalRun
from anabranch.engine.settings import Settings
from anabranch.engine.step.batch_loop import BatchSummary
from anabranch.testing.stream_model import scratch
from anabranch.workloads.chain import STREAMS, Chain, flipping

CHAIN = Chain(4_000, 400)


@contextmanager
def chain_run(root: Path) -> Iterator[LocalRun]:
    settings = Settings(sites=3, slots=2, rebalance="off", skew_buffer_rows=0)
    run = LocalRun(root, STREAMS, [CHAIN.query()], settings=settings)
    try:
        yield run
    finally:
        run.close()


@pytest.fixture(scope="module")
def batches() -> list[dict[str, pa.Table]]:
    return list(CHAIN.batches(8, flipping(0.1, 6.0, every=4)))


def arrivals(summary: BatchSummary) -> dict[str, int]:
    """Rows that had a choice, by the state that keeps them at the station they took."""
    counts: dict[str, int] = {}
    for site in (site for report in summary.reports for site in report.sites):
        for state, told in site.stations.items():
            counts[state] = counts.get(state, 0) + int(told.arrived.sum())
    return counts


@pytest.fixture(scope="module")
def summaries(batches: list[dict[str, pa.Table]]) -> list[BatchSummary]:
    with scratch() as root, chain_run(root) as run:
        return [run.batch(batch) for batch in batches]


def test_a_batch_that_is_run_again_sends_rows_the_same_way(batches: list[dict[str, pa.Table]]) -> None:
    with scratch() as root:
        with chain_run(root / "first") as run:
            for batch in batches[:3]:
                run.batch(batch)
        shutil.copytree(root / "first", root / "second")
        found = []
        for checkpoint in ("first", "second"):
            with chain_run(root / checkpoint) as run:
                found.append(arrivals(run.batch(batches[3])))
    assert found[0] == found[1]
    assert len(found[0]) == 2


def test_rows_take_the_selective_station_first_and_change_with_it(summaries: list[BatchSummary]) -> None:
    shares = []
    for summary in summaries:
        first, second = arrivals(summary).values()
        assert first + second == CHAIN.middle, "each row is at one station"
        shares.append(first / CHAIN.middle)
    assert 0.4 < shares[0] < 0.6, "nothing is known yet"
    assert shares[3] > 0.9
    assert shares[7] < 0.1


def test_progress_and_events_tell_tickets_shares_and_what_decided(summaries: list[BatchSummary]) -> None:
    (told,) = summaries[3].eddies
    assert told["stations"] == ["r–s", "s–t"]
    assert told["references"] == ["s"]
    assert told["tickets"][0] > 0.5
    assert told["tickets"][1] == 0.0
    assert told["shares"][0] > 0.8
    assert told["decidedBy"] == "lottery"
    changes = [e for s in summaries for e in s.events if e.kind is EventKind.ORDER_CHANGED]
    assert changes[-1].data["favourite"] == "s–t"


def test_the_record_of_a_run_has_the_eddies(batches: list[dict[str, pa.Table]]) -> None:
    with scratch() as root, chain_run(root) as run:
        run.batch(batches[0])
        (eddy,) = run.record.progress[-1].eddies
    assert eddy.query == "chain"
    assert eddy.to_json()["decidedBy"] in ("lottery", "back-pressure")
