"""Queries come and go with every batch, and nothing grows: files, manifests, what driver and workers hold."""

from __future__ import annotations

import gc
import os
import resource
from collections import Counter
from functools import reduce
from operator import or_
from pathlib import Path

import pytest

from anabranch.engine.live import prepared
from anabranch.engine.local_driver import LocalRun
from anabranch.engine.settings import Settings
from anabranch.engine.sinks.memory_sink import MemorySink
from anabranch.engine.sinks.shared_sink import shared
from anabranch.engine.task.worker.constants import compiled_constants
from anabranch.state import PosixStorage
from anabranch.state.manifest_codec import encode
from anabranch.testing.stream_model import scratch
from tests.engine.directed_runs import STREAMS, joined
from tests.engine.nasty_runs import rows

SETTINGS = Settings(sites=2, slots=2, rebalance="off", sharing="open", keep_manifests=2)
TEXT = joined("a", "b").text
LONG = int(os.environ.get("ANABRANCH_FLAT_BATCHES", "1000"))


class Forgetful(MemorySink):
    """A sink that keeps nothing."""

    def publish(self, results: object) -> None:
        """Take no rows: they would grow."""


def sizes(run: LocalRun, root: Path) -> Counter[str]:
    """What may not grow."""
    found = Counter(file.relative_to(root).parts[0] for file in root.rglob("*") if file.is_file())
    del found["events.jsonl"], found["progress.jsonl"]
    manifest, catalog = run.loop.manifest, run.loop.catalog
    assert manifest is not None
    assert manifest.catalog_log is not None
    task = run.next_task()
    compiled = compiled_constants(run.storage, task.constants)
    found["manifest, bytes"] = len(encode(manifest))
    found["catalog, bytes"] = len(PosixStorage(root).read(manifest.catalog_log.whole.name))
    found["queries"] = len(catalog.states)
    found["forgotten"] = len(catalog.forgotten) + len(catalog.retired)
    found["members indexed"] = sum(len(split.members) for split in compiled._splits.values())
    found["changes told"] = len(task.roster)
    return found


def live(root: Path, *, batches: int, turnover: int, looks: int) -> list[Counter[str]]:
    """Let queries come and go with every batch, each for three; returns what there is at some times."""
    sink = shared(Forgetful())
    run = LocalRun(root, STREAMS, [joined("a", "b", name="base")], sinks={"base": sink}, settings=SETTINGS)
    found = []
    for number in range(batches):
        for i in range(turnover):
            run.add(f"q{number}.{i}", f"{TEXT} AND a.v = {i % 5} AND b.k > {number % 7}", sink)
            if number >= 3:
                run.drop(f"q{number - 3}.{i}")
        run.batch({s: rows(*((k, 10 * number + k) for k in range(6))) for s in "abcd"})
        if number and number % (batches // looks) == 0:
            found.append(sizes(run, root))
    run.close()
    return found


def check_flat(found: list[Counter[str]], *, slack: float = 1.35) -> None:
    # Files come with every step and go every few: the most of some looks counts.
    half = len(found) // 2
    before, after = (reduce(or_, some) for some in (found[1:half], found[half:]))
    grown = {what: (before[what], after[what]) for what in after if after[what] > slack * before[what] + 8}
    assert not grown, f"{grown} of {after}"


def test_nothing_grows_while_queries_come_and_go(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prepared, "FEW", 24)
    with scratch() as root:
        found = live(root, batches=24, turnover=4, looks=24)
    check_flat(found)
    assert found[-1]["queries"] < 30


@pytest.mark.slow
def test_nothing_grows_over_a_thousand_batches() -> None:
    with scratch() as root:
        live(root, batches=40, turnover=20, looks=4)
    gc.collect()
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with scratch() as root:
        check_flat(live(root, batches=LONG, turnover=100, looks=100))
    gc.collect()
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss < before + (300 << 10)
