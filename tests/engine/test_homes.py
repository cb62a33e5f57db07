"""Queries at home at one site: the results are the same as if they ran over all."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import Phase as Stage
from hypothesis import given, settings
from hypothesis import strategies as st

from anabranch.adapt.placement import homes as policy
from anabranch.engine.local_driver import LocalRun
from anabranch.engine.settings import Settings
from anabranch.engine.task.home_parts import homes_of
from anabranch.exchange.partition_map import PartitionMap
from anabranch.exchange.slot_map import SlotMap
from anabranch.plan.placement_units import placement_units
from anabranch.testing.stream_model import scratch
from tests.engine.nasty_runs import bind, rows, stream
from tests.support.generated import Case, cases
from tests.support.generated_aggregates import AggregateCase, aggregate_cases, check_aggregates
from tests.support.oracle_check import check_case
from tests.support.restless import RestlessDecider
from tests.support.restless_homes import RestlessHomes

FIND_AND_SHRINK = (Stage.explicit, Stage.reuse, Stage.generate, Stage.shrink)
A, B = stream("a"), stream("b")
MANY = 40


@settings(max_examples=12, phases=FIND_AND_SHRINK)
@given(cases(), st.integers(0, 1 << 20), st.booleans())
def test_homes_change_no_result(case: Case, seed: int, restless: bool) -> None:
    check_case(case, RestlessHomes(seed, RestlessDecider(seed) if restless else None))


@pytest.mark.slow
@settings(max_examples=2_000, phases=FIND_AND_SHRINK)
@given(cases(), st.integers(0, 1 << 20), st.booleans())
def test_homes_change_no_result_of_thousands(case: Case, seed: int, restless: bool) -> None:
    check_case(case, RestlessHomes(seed, RestlessDecider(seed) if restless else None))


@settings(max_examples=8, phases=FIND_AND_SHRINK)
@given(aggregate_cases(), st.integers(0, 1 << 20))
def test_homes_change_no_aggregate(case: AggregateCase, seed: int) -> None:
    check_aggregates(case, decider=RestlessHomes(seed))


def join_of(i: int) -> str:
    joined = "SELECT a.id AS x, b.id AS y FROM a [RANGE 1 HOUR], b [RANGE 1 HOUR]"
    return f"{joined} WHERE a.k = b.k AND a.v = {i} AND b.v = {i}"


def test_small_queries_get_homes_at_several_sites(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(policy, "FEW", 8)
    texts = {f"q{i}": join_of(i) for i in range(MANY)}
    found = {}
    for placement in ("auto", "off"):
        with scratch() as root:
            how = Settings(sites=4, slots=2, placement=placement)
            run = LocalRun(root, (A, B), bind((A, B), **texts), settings=how)
            for batch in range(12):
                new = rows(*((i % 5, i % MANY) for i in range(400)), first=400 * batch)
                run.batch({"a": new, "b": new})
            homes = run.loop._state.homes.site
            run.drain()  # rows that were put off
            found[placement] = {name: sorted(run.results(name).to_pylist(), key=str) for name in texts}
            assert bool(homes) == (placement == "auto")
            if homes:
                assert len(set(homes.values())) > 1
                assert "homes_chosen" in {event.kind for event in run.record.events}
                assert run.record.progress[-1]["placement"]["numQueriesAtHome"] == len(homes)
                assert len(homes_of(run.loop.layout, homes)) == 2 * MANY
            run.close()
    assert found["auto"] == found["off"]
    assert any(found["off"].values())


def test_random_homes_are_homes_of_steps() -> None:
    """Else the sessions above would compare nothing."""
    decider, at_home = RestlessHomes(1), 0
    with scratch() as root:
        texts = {"p": join_of(1), "q": join_of(2), "r": join_of(3)}
        run = LocalRun(
            root, (A, B), bind((A, B), **texts), settings=Settings(sites=4, slots=2), decider=decider
        )
        for batch in range(6):
            new = rows(*((i % 5, i % 4) for i in range(40)), first=40 * batch)
            run.batch({"a": new, "b": new})
            at_home += bool(run.loop._task(batch + 1, 0.0).homes)
        run.close()
    assert decider.chosen > 4
    assert at_home > 4


def test_queries_that_share_an_input_have_one_home() -> None:
    texts = {"p": "SELECT id FROM a WHERE v = 1", "q": "SELECT id, k FROM a WHERE v = 1", "r": join_of(3)}
    with scratch() as root:
        run = LocalRun(root, (A, B), bind((A, B), **texts))
        units = placement_units(run.loop.layout)
        run.close()
    assert {frozenset(unit) for unit in units} == {frozenset("pq"), frozenset("r")}


def test_rows_go_home_and_others_by_partition() -> None:
    slots = SlotMap.of(PartitionMap.even(4), 2, homes=(-1, 3))
    tags = np.array([0, 1, 2, 3, -1, -2], dtype=np.int32)
    addresses = np.zeros(6, dtype=np.int64)
    assert slots.rows_of(1, addresses, tags).tolist() == [False, False, True, True, False, False]
    assert slots.rows_of(0, addresses, tags).tolist() == [True, True, False, False, True, True]
