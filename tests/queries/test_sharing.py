"""Members of a group get what they would get alone, whatever the group is."""

from __future__ import annotations

import random
from unittest import mock

import pyarrow as pa
import pytest

from anabranch.adapt.boundary.decider import Decider
from anabranch.engine.local_driver import LocalRun
from anabranch.engine.settings import Settings
from anabranch.engine.sinks.memory_sink import MemorySink
from anabranch.language.flow import bind_query
from anabranch.queries.catalog import Catalog, explain_query
from anabranch.queries.grouping import groups
from anabranch.queries.grouping.benefit import Benefit
from anabranch.testing.stream_model import scratch
from tests.queries.generated_groups import STREAMS, A, B, group_case, rows_of
from tests.support.generated import Case
from tests.support.oracle_check import check_results, small_pieces
from tests.support.restless import RestlessDecider

SEEDS = range(6)
LONG = range(1000, 1400)


@pytest.fixture
def always_share() -> object:
    """Groups that save nothing are formed, too."""
    with mock.patch.object(groups, "benefit", return_value=Benefit(1.0, 0.0)):
        yield


def run_groups(case: Case, decider: Decider | None = None) -> tuple[dict[str, pa.Table], Catalog]:
    """Results by query up to the end of input, and what ran last."""
    sinks = {q.name: MemorySink() for phase in case.phases for q in phase.queries}
    with scratch() as root, small_pieces(case):
        for phase in case.phases:
            options = {"settings": phase.settings, "wide_hash_bits": case.wide_hash_bits, "decider": decider}
            run = LocalRun(root, case.streams, phase.queries, sinks=sinks, **options)
            for batch in phase.batches:
                run.batch(batch)
            run.drain()
            if phase is case.phases[-1]:
                run.end_of_input()
            run.close()
    return {name: sink.table() for name, sink in sinks.items()}, run.loop.catalog


def check_groups(case: Case, decider: Decider | None = None) -> None:
    check_results(case, run_groups(case, decider)[0])


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.usefixtures("always_share")
def test_members_get_what_the_oracle_gives_through_a_restart(seed: int) -> None:
    check_groups(group_case(seed))


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.usefixtures("always_share")
def test_members_get_what_the_oracle_gives_while_partitions_move(seed: int) -> None:
    check_groups(group_case(100 + seed), RestlessDecider(seed))


@pytest.mark.slow
@pytest.mark.parametrize("seed", LONG)
@pytest.mark.usefixtures("always_share")
def test_hundreds_of_groups_give_what_the_oracle_gives(seed: int) -> None:
    check_groups(group_case(seed, queries=24), RestlessDecider(seed) if seed % 2 else None)


@pytest.mark.usefixtures("always_share")
def test_a_group_beyond_the_quotas_of_all_ends_with_its_members_and_leaves_nothing_behind() -> None:
    texts = {
        "wide": "SELECT a.id FROM a [RANGE 5 SECONDS], b [RANGE 5 SECONDS] WHERE a.k = b.k",
        "narrow": "SELECT b.id FROM a [NOW], b [RANGE 1 SECOND] WHERE a.k = b.k AND a.v > 0",
        "other": "SELECT b.id FROM b WHERE w = 1",
    }
    queries = [bind_query(name, text, STREAMS) for name, text in texts.items()]
    rng = random.Random(3)
    rows = {name: rows_of(rng, name, 0, 80) for name in STREAMS}
    with scratch() as root:
        settings = Settings(sites=2, slots=2, quota_pairs=20, sharing="always")
        run = LocalRun(root, (A, B), queries, settings=settings)
        run.batch(rows)
        assert {"wide", "narrow"} <= run.loop.failures.keys()
        assert "other" not in run.loop.failures
        assert [run.results(name).num_rows for name in ("wide", "narrow")] == [0, 0]
        assert run.results("other").num_rows > 0
        assert "one of 2 queries" in explain_query(run.loop.catalog, "wide", sites=2)
        run.close()


@pytest.mark.usefixtures("always_share")
def test_a_group_runs_as_one_query() -> None:
    _, catalog = run_groups(group_case(0))
    assert any(len(query.answered) > 1 for query in catalog.queries)
    assert len(catalog.queries) < len(catalog.answered)
