"""Members of a group get what they would get alone, whatever the group is."""

from __future__ import annotations

from unittest import mock

import pyarrow as pa
import pytest

from anabranch.adapt.boundary.decider import Decider
from anabranch.engine.local_driver import LocalRun
from anabranch.engine.sinks.memory_sink import MemorySink
from anabranch.queries import groups
from anabranch.queries.benefit import Benefit
from anabranch.queries.catalog import Catalog
from anabranch.testing.stream_model import scratch
from tests.queries.generated_groups import group_case
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
    return {name: sink.table() for name, sink in sinks.items()}, run.loop._catalog


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
def test_a_group_runs_as_one_query() -> None:
    _, catalog = run_groups(group_case(0))
    assert any(len(query.answered) > 1 for query in catalog.queries)
    assert len(catalog.queries) < len(catalog.answered)
