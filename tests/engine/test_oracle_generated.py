"""Every generated session gives what DuckDB gives over the accepted rows: the heart of the tests.

`make test` runs about 160 sessions, each of two to four queries, with restarts, other numbers of sites,
collisions, compaction and any join tree. `make test-slow` runs thousands. A failure prints
the whole session and the line that replays it.
"""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import Phase as Stage
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.generated import Batch, Case, Phase, batch_splits, cases, settings_of_phase
from tests.support.oracle_check import check_case, check_results, check_rows, run_case

QUICK = 80
LONG = 5_000
FIND_AND_SHRINK = (Stage.explicit, Stage.reuse, Stage.generate, Stage.shrink)  # explaining takes minutes


@settings(max_examples=QUICK, phases=FIND_AND_SHRINK)
@given(cases())
def test_a_session_gives_what_the_oracle_gives_over_the_accepted_rows(case: Case) -> None:
    check_case(case)


@pytest.mark.slow
@settings(max_examples=LONG, phases=FIND_AND_SHRINK)
@given(cases())
def test_thousands_of_sessions_give_what_the_oracle_gives(case: Case) -> None:
    check_case(case)


@st.composite
def two_splits(draw: st.DrawFn) -> tuple[Case, Case]:
    """The same rows, none of them late, cut into batches in two ways."""
    case = draw(cases(nothing_late=True, restarts=False))
    (phase,) = case.phases
    names = phase.batches[0].keys()
    rows = {name: pa.concat_tables([b[name] for b in phase.batches]) for name in names}
    other = draw(batch_splits(rows, draw(st.sampled_from((1, 4, 9)))))
    return case, _with_batches(case, other, draw(settings_of_phase()))


def _with_batches(case: Case, batches: tuple[Batch, ...], how: object) -> Case:
    (phase,) = case.phases
    return Case(
        case.streams,
        (Phase(phase.queries, how, batches),),  # type: ignore[arg-type]
        wide_hash_bits=case.wide_hash_bits,
        plan_seed=case.plan_seed,
    )


@settings(max_examples=30, phases=FIND_AND_SHRINK)
@given(two_splits())
def test_every_batch_split_gives_the_same_result_when_nothing_is_late(pair: tuple[Case, Case]) -> None:
    one, other = pair
    first, second = run_case(one)[0], run_case(other)[0]
    check_results(one, first)
    for name, rows in first.items():
        check_rows(second[name], rows, what=name)
