"""The CAPE experiments on a few rows; the full runs are `anabranch reproduce`."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from anabranch.engine.task.track_run import TrackRun
from anabranch.plan.cost.migration_cost import PurgeRule
from anabranch.reproduce import EXPERIMENTS, run_experiment
from anabranch.reproduce.cape.cape_exact import exact
from anabranch.reproduce.cape.cape_fig9 import track_seconds
from anabranch.reproduce.cape.cape_fig10 import moving_state
from anabranch.reproduce.cape.cape_fig13 import PT, cape_fig13, course
from anabranch.reproduce.cape.cape_overhead import overhead
from anabranch.reproduce.cape.cape_streams import SET_1, Arrivals
from anabranch.reproduce.report.result import Check

CAPE = [f"cape-fig{n}" for n in range(9, 17)] + ["cape-exact", "cape-reorder", "cape-overhead"]
SMALL = ["cape-fig9", "cape-fig11", "cape-exact"]
"""Claims that hold on a small run too; docs/experiments/cape.md says which do not hold at all."""
BATCH = 0.126
"""And a little, because times are floats."""


def track(rule: PurgeRule, *, order: str = "abcd", lateness_s: float = 0.0) -> float:
    return track_seconds(SET_1, 1.0, rule=rule, per_window=8, order=order, lateness_s=lateness_s, rows=20.0)


def failed(checks: Sequence[Check]) -> list[str]:
    return [str(check) for check in checks if not check.holds]


def test_by_the_papers_rule_a_track_lasts_two_windows_and_one_for_a_single_join():
    assert track(PurgeRule.LEMMA_2_2) == pytest.approx(2.0, abs=BATCH)
    assert track(PurgeRule.LEMMA_2_2, order="ab") == pytest.approx(1.0, abs=BATCH)


def test_by_our_rule_a_track_lasts_a_window_and_the_lateness():
    assert track(PurgeRule.EXACT) == pytest.approx(1.0, abs=BATCH)
    assert track(PurgeRule.EXACT, lateness_s=0.5) == pytest.approx(1.5, abs=BATCH)


def test_moving_state_is_measured_and_predicted():
    measured, predicted = moving_state(SET_1, 1.0, rows=50.0, seeds=1)
    assert measured.median > 0
    assert predicted.median > 0


def test_a_migration_at_every_batch_changes_no_result():
    assert not failed(exact("cape-exact", batches=8, rows=60, on_spark=False).checks)


def test_both_strategies_end_with_the_new_plans_rows_and_a_track_is_never_silent(tmp_path):
    assert not failed(cape_fig13(tmp_path, quick=True).checks)
    trace = course("low", quick=True).traces[PT]
    assert all(rows for rows, both in zip(trace.results, trace.running_old, strict=True) if both)


def test_what_only_the_optimizer_needs_is_timed_inside_a_run():
    found = overhead(300, batches=12)
    assert 0 < found.sampling_s < found.sites_s
    assert 0 < found.share < 1
    assert found.changes == 0
    assert TrackRun._tell_references.__qualname__ == "TrackRun._tell_references"  # nothing is timed any more


def test_arrivals_are_the_same_for_every_run():
    arrivals = Arrivals({0: SET_1.load(rows=10.0, second=1.0)}, 100_000, disorder_us=50_000)
    assert list(arrivals.batches(3)) == list(arrivals.batches(3))


def test_every_experiment_of_cape_is_there():
    assert [name for name in EXPERIMENTS if name.startswith("cape-")] == CAPE


@pytest.mark.slow
@pytest.mark.parametrize("name", SMALL)
def test_the_claim_holds_on_a_small_run(name, tmp_path):
    assert run_experiment(name, tmp_path, quick=True).holds
