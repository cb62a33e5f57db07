"""Sessions whose memory budgets are a few bytes and change before every batch and at every restart."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from itertools import cycle
from unittest import mock

from hypothesis import strategies as st

from anabranch.engine import settings
from anabranch.engine.local_driver import LocalRun
from tests.support.generated_aggregates import AggregateCase, check_aggregates

Budgeted = tuple[AggregateCase, Sequence[int]]
"""A session and its budgets in bytes, one after the other and then from the start again; 0 is none."""
SIZES = (1, 600, 0, 4_000, 40_000)
"""From a partition at a time to nearly all that a generated session keeps."""


@contextmanager
def budgets_in_bytes() -> Iterator[None]:
    """While it lasts, `memory_budget_mb` counts bytes."""
    with mock.patch.object(settings, "MEBIBYTE", 1):
        yield


def budgeted(cases: st.SearchStrategy[AggregateCase]) -> st.SearchStrategy[Budgeted]:
    """Sessions with budgets."""
    return st.tuples(cases, st.lists(st.sampled_from(SIZES), min_size=1, max_size=6))


def check_budgeted(given: Budgeted) -> None:
    """Run a session under its budgets and raise AssertionError where it differs from the oracle."""
    case, budgets = given
    turns = cycle(budgets)
    phases = tuple(
        (queries, replace(chosen, memory_budget_mb=next(turns)), batches, ends)
        for queries, chosen, batches, ends in case.phases
    )

    def change(run: LocalRun) -> None:
        run.loop.change(memory_budget_mb=next(turns))

    with budgets_in_bytes():
        check_aggregates(replace(case, phases=phases, seed=None), change)
