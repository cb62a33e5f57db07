"""The budget of a site's work: what it refuses, what goes on another way, what ends, what a restart finds."""

from __future__ import annotations

import random
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from unittest import mock

import pyarrow as pa
import pytest

from anabranch.adapt.boundary import enact
from anabranch.adapt.boundary.boundary_state import BoundaryState
from anabranch.adapt.boundary.decisions import Decisions
from anabranch.adapt.boundary.observed import Observed
from anabranch.adapt.events import EventKind
from anabranch.engine.local_driver import LocalRun
from anabranch.engine.settings import Settings
from anabranch.engine.step.batch_loop import BatchSummary
from anabranch.engine.task.worker import machine_memory
from anabranch.engine.task.worker.machine_memory import usual_work_memory
from anabranch.errors import ConfigError
from anabranch.operators import work_memory
from anabranch.plan.states.state_id import StateKind
from anabranch.spark.run_driver import RunDriver
from anabranch.testing.oracle_compare import DifferentRows
from tests.engine.nasty_runs import bind, rows, stream
from tests.support.generated import Phase
from tests.support.oracle_check import check_case
from tests.support.restless import RestlessDecider
from tests.support.restless_session import session_of
from tests.support.small_budgets import budgets_in_bytes

STREAMS = tuple(stream(name) for name in "abc")
_W = "[RANGE 9 SECONDS]"
JOIN = f"SELECT a.id AS a, b.id AS b, c.id AS c FROM a {_W}, b {_W}, c {_W} WHERE a.k = b.k AND b.k = c.k"
GROUPED = f"SELECT a.k, COUNT(*) AS n FROM a {_W}, b {_W} WHERE a.k = b.k GROUP BY a.k"
WITHOUT_STATES = "[a b c, b a c, c a b]"
SIZE = 40
"""Rows of one key: so many squared are pairs, of 40 bytes and more each when they are kept."""
Batch = Mapping[str, pa.Table]


@contextmanager
def _session(root: Path, budget: int, **texts: str) -> Iterator[LocalRun]:
    """A session in which a query may keep so many bytes of a batch."""
    settings = Settings(sites=1, slots=1, migration="off", rebalance="off", work_memory_mb=budget)
    with budgets_in_bytes():
        session = LocalRun(root, STREAMS, bind(STREAMS, small="SELECT id FROM a", **texts), settings=settings)
        yield session
        session.close()


def _rows(key: int, size: int, at_us: int) -> pa.Table:
    return rows(*[(key, at_us)] * size, first=at_us)


def _meet(a: int, b: int, c: int, at_us: int) -> Batch:
    """So many rows of one key in each stream."""
    return {name: _rows(7, size, at_us) for name, size in (("a", a), ("b", b), ("c", c))}


def _abandoned(summary: BatchSummary) -> list[str]:
    return [e.message for e in summary.events if e.kind is EventKind.PLAN_ABANDONED]


def test_a_plan_that_would_keep_too_much_is_left_in_mid_batch_and_no_result_is_lost(
    tmp_path: Path,
) -> None:
    with _session(tmp_path, 20_000, q=JOIN) as session:
        session.batch(_meet(2, 2, 0, 0))
        (told,) = _abandoned(session.batch(_meet(SIZE, SIZE, 3, 10)))
        assert "((a b) c) would have kept more than" in told
        assert session.loop.tracks.plans["q"] == (WITHOUT_STATES,)
        session.batch(_meet(1, 0, 1, 20))
        assert session.results("q").num_rows == (SIZE + 3) * (SIZE + 2) * 4
        assert not session.loop.failures
        blocks = session.loop.manifest.blocks if session.loop.manifest else ()
        assert not [b for b in blocks if b.state.kind is StateKind.JOIN]


def test_it_is_left_after_a_restart_too(tmp_path: Path) -> None:
    with _session(tmp_path, 20_000, q=JOIN) as session:
        session.batch(_meet(SIZE, SIZE, 0, 0))
    with _session(tmp_path, 20_000, q=JOIN) as session:
        assert not _abandoned(session.batch(_meet(SIZE, SIZE, 1, 10)))
        assert session.results("q").num_rows == (2 * SIZE) ** 2


def test_rows_within_the_budget_go_to_files_in_pieces_and_are_joined_from_there(tmp_path: Path) -> None:
    with _session(tmp_path, 200_000, q=JOIN) as session, mock.patch.object(work_memory, "LEAST_FLUSH", 9_000):
        assert not _abandoned(session.batch(_meet(SIZE, SIZE, 1, 0)))
        blocks = session.loop.manifest.blocks if session.loop.manifest else ()
        pieces = [b for b in blocks if b.state.kind is StateKind.JOIN]
        assert len(pieces) > 3
        assert sum(b.rows for b in pieces) == SIZE**2
        session.batch(_meet(0, 0, 1, 10))
        assert session.results("q").num_rows == 2 * SIZE**2


def test_results_that_are_grouped_cannot_do_without_and_end_their_query_alone(tmp_path: Path) -> None:
    message = re.compile(r"query 'q' made more than .* MiB of rows to keep .* was ended: .* work_memory_mb")
    with _session(tmp_path, 20_000, q=GROUPED, other=JOIN) as session:
        session.batch(_meet(SIZE, SIZE, 0, 0))
        assert message.match(session.loop.failures["q"])
        assert session.loop.failures.keys() == {"q"}
    with _session(tmp_path, 20_000, q=GROUPED, other=JOIN) as session:
        told_at_start = RunDriver(session.loop, session.fence).record.events
        (told,) = [e.message for e in told_at_start if e.kind == "query_failed"]
        assert message.search(told)
        session.batch(_meet(0, 0, 1, 10))
        assert session.results("other").num_rows == SIZE**2
        assert session.results("small").num_rows == 0


@pytest.fixture
def with_much_between_b_and_c(tmp_path: Path) -> Iterator[LocalRun]:
    """A session that knows how its streams meet: all rows of b and c do, hardly any of a."""
    with _session(tmp_path, 20_000, q=JOIN) as session:
        for batch in range(4):
            at_us = 1_000_000 * batch
            session.batch({"a": _rows(1, 1, at_us), "b": _rows(7, 20, at_us), "c": _rows(7, 20, at_us)})
        yield session


def test_a_plan_that_is_predicted_to_keep_too_much_is_refused_with_numbers(
    with_much_between_b_and_c: LocalRun,
) -> None:
    numbers = r"predicted to keep 0\.[1-9] MiB .* at site 0, and 0\.0 MiB may be .*force=True"
    with pytest.raises(ConfigError, match=numbers):
        with_much_between_b_and_c.loop.migrate("q", "((b c) a)")
    with_much_between_b_and_c.loop.migrate("q", "((a c) b)")


def test_a_plan_that_is_forced_is_tried_and_left(with_much_between_b_and_c: LocalRun) -> None:
    session = with_much_between_b_and_c
    session.loop.migrate("q", "((b c) a)", force=True)
    session.batch({"a": _rows(1, 1, 4_000_000)})
    assert session.loop.tracks.plans["q"] == ("((b c) a)",)
    assert _abandoned(session.batch({"a": _rows(7, 2, 5_000_000)}))  # its states are computed in this one
    assert session.loop.tracks.plans["q"] == (WITHOUT_STATES,)
    assert session.results("q").num_rows == 2 * 80 * 80
    assert not session.loop.failures


def test_nothing_is_refused_of_streams_of_which_nothing_is_known(tmp_path: Path) -> None:
    with _session(tmp_path, 1, q=JOIN) as session:
        session.loop.migrate("q", "((b c) a)")
        session.batch({"a": _rows(1, 1, 4_000_000)})
        assert session.loop.tracks.plans["q"] == ("((b c) a)",)


@pytest.mark.parametrize("seed", range(20))
def test_plans_left_at_any_time_change_no_result(seed: int) -> None:
    _check_leaving(seed)


def test_many_of_these_sessions_leave_plans() -> None:
    assert sum(map(_check_leaving, range(3))) > 3


def test_a_driver_that_does_not_hear_of_it_is_found_out() -> None:
    """It would go on with a plan whose states lack the rows of a batch."""
    deaf = mock.patch.object(enact, "_without_abandoned", lambda tracks, *_: (tracks, []))
    with deaf, pytest.raises(DifferentRows):
        list(map(_check_leaving, range(10)))


def _check_leaving(seed: int) -> int:
    """Run a session under small budgets, and tell how often a plan was left.

    Partitions move, sites come and go and plans change at every boundary, by either strategy.
    """
    draw = random.Random(f"{seed} budgets")
    case = session_of(seed)
    phases = tuple(
        Phase(p.queries, replace(p.settings, work_memory_mb=draw.choice((90, 250, 700))), p.batches)
        for p in case.phases
    )
    left: list[str] = []

    class Watching(RestlessDecider):
        def decide(self, state: BoundaryState, observed: Observed) -> tuple[BoundaryState, Decisions]:
            left.extend(plan.plan for site in observed.sites for plan in site.abandoned)
            return super().decide(state, observed)

    with budgets_in_bytes():
        check_case(replace(case, phases=phases), Watching(seed))
    return len(left)


@pytest.mark.parametrize(
    ("text", "machine", "slots", "share"),
    [
        pytest.param("max\n", 64 << 30, 4, 8 << 30, id="no limit: the memory of the machine"),
        pytest.param(f"{8 << 30}\n", 64 << 30, 4, 1 << 30, id="the limit of a container"),
        pytest.param("max\n", 64 << 30, 400, 4 << 30, id="slots beyond the cores are elsewhere"),
        pytest.param("max\n", 64 << 30, 0, 4 << 30, id="a slot per core"),
    ],
)
def test_the_usual_budget_is_a_share_of_the_memory_there_is(
    tmp_path: Path, text: str, machine: int, slots: int, share: int
) -> None:
    limit = tmp_path / "memory.max"
    limit.write_text(text, encoding="ascii")
    machine_memory.machine_memory.cache_clear()
    pages = {"SC_PHYS_PAGES": machine // 4096, "SC_PAGE_SIZE": 4096}
    with (
        mock.patch.object(machine_memory, "_LIMITS", (limit, tmp_path / "none")),
        mock.patch.object(machine_memory.os, "sysconf", pages.__getitem__),
        mock.patch.object(machine_memory.os, "cpu_count", return_value=8),
    ):
        assert usual_work_memory(slots) == share
    machine_memory.machine_memory.cache_clear()


def test_the_budget_is_read_like_other_settings() -> None:
    assert Settings().with_values([("work_memory_mb", "64")]).work_memory_bytes == 64 << 20
    assert Settings(work_memory_mb=0).work_memory_bytes is None
    assert Settings().with_values([("work_memory_mb", "AUTO")]).work_memory_bytes == usual_work_memory(0)
    with pytest.raises(ConfigError, match="a whole number or 'auto'"):
        Settings().with_values([("work_memory_mb", "much")])
