"""Sessions over an object store give what the oracle gives; `ANABRANCH_STORAGE=object` runs all tests so."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from unittest import mock

import pyarrow.parquet as pq
import pytest
from hypothesis import Phase as Stage
from hypothesis import given, settings
from hypothesis import strategies as st

from anabranch.engine.local_driver import LocalRun
from anabranch.engine.sinks.memory_sink import MemorySink
from anabranch.engine.sinks.parquet_sink import ParquetSink
from anabranch.state.errors import CorruptionError
from anabranch.state.storage import ObjectStorage, block_cache
from anabranch.state.storage.object_store import make_store
from tests.engine.directed_runs import STREAMS, TWO_SITES, joined, run_directed, steady_batches
from tests.engine.test_oracle_isolation import isolated
from tests.engine.test_planted_bugs import window_bound_exclusive
from tests.support.crash_scenario import PLAIN, crash_and_recover, scratch
from tests.support.generated import Case, cases
from tests.support.oracle_check import check_case, check_rows
from tests.support.planted import assert_caught
from tests.support.restless import RestlessDecider
from tests.support.storages import local_runs_over

CACHED = replace(PLAIN, only="block-cache")
FIND_AND_SHRINK = (Stage.explicit, Stage.reuse, Stage.generate, Stage.shrink)


@settings(max_examples=15, phases=FIND_AND_SHRINK)
@given(cases(), st.integers(0, 2**32), st.booleans())
def test_a_session_over_an_object_store_gives_what_the_oracle_gives(
    case: Case, seed: int, shared: bool
) -> None:
    with local_runs_over("object"):
        check_case(case if shared else isolated(case), RestlessDecider(seed))


def test_a_planted_bug_is_caught_over_an_object_store_too() -> None:
    with local_runs_over("object"):
        assert_caught(window_bound_exclusive, cases(), check_case, enough=600)


@contextmanager
def copies_taken_on_trust() -> Iterator[None]:
    """A cache that does not look at what a dead process left in it."""
    with mock.patch.object(block_cache, "_is_whole", lambda path, *_: path.exists()):
        yield


def test_a_cache_that_trusts_what_a_crash_left_behind_is_found_out() -> None:
    def look() -> None:
        for seed in range(200):
            with scratch("trust") as root:
                crash_and_recover(root, seed, CACHED, "object")

    with copies_taken_on_trust(), pytest.raises(CorruptionError, match=r"expected .* found"):
        look()


def test_a_crash_while_copies_are_fetched_leaves_nothing_that_harms() -> None:
    crashes, seeds = 0, range(40)
    for seed in seeds:
        with scratch("copies") as root:
            crashes += crash_and_recover(root, seed, CACHED, "object")
    assert crashes > 0.8 * len(seeds)


@pytest.mark.parametrize("capacity", [1 << 30, 1])
def test_a_cache_keeps_what_fits_and_a_small_one_changes_nothing(tmp_path: Path, capacity: int) -> None:
    make_store(str(tmp_path))
    storage = ObjectStorage(str(tmp_path), tmp_path / "cache", capacity)
    sinks = {"q": MemorySink()}
    for batch in steady_batches(6):
        run = LocalRun(
            tmp_path, STREAMS, [joined("a", "b")], settings=TWO_SITES, storage=storage, sinks=sinks
        )
        run.batch(batch)
        run.close()
    (told,) = (sink.table() for sink in sinks.values())
    with scratch("posix") as root:
        wanted = run_directed(root, [joined("a", "b")], steady_batches(6), {}, ended=False).results["q"]
    check_rows(told, wanted, what="over an object store")
    blocks = [path for path in storage.cache.rglob("*.arrow") if path.is_file()]
    assert blocks if capacity > 1 else not blocks


def test_results_in_a_directory_are_copies_that_outlive_the_store(tmp_path: Path) -> None:
    make_store(str(tmp_path))
    storage = ObjectStorage(str(tmp_path), tmp_path / "cache")
    sinks = {"q": ParquetSink(tmp_path / "out")}
    run = LocalRun(tmp_path, STREAMS, [joined("a", "b")], settings=TWO_SITES, storage=storage, sinks=sinks)
    for batch in steady_batches(3):
        run.batch(batch)
    run.close()
    rows = pq.read_table(tmp_path / "out").num_rows
    assert rows > 0
    for name in storage.list("staged"):
        storage.delete(name)
    assert pq.read_table(tmp_path / "out").num_rows == rows
