"""Parameters follow from what moves brought."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from anabranch.adapt.balance.damping import Damping
from anabranch.adapt.balance.self_tuning import Effect, Tuning, TuningLimits, judge, relax, tune
from anabranch.adapt.measures.cost_fit import CostFit
from anabranch.adapt.measures.observation import Outcome
from anabranch.adapt.measures.slowness import Slowness
from anabranch.adapt.measures.statistics import Statistics

LIMITS = TuningLimits()

VERDICTS = {
    "the promise was kept": (0.3, Outcome(0.28, 0.2), Effect.USEFUL),
    "a quarter of the promise is enough": (0.4, Outcome(0.1, 0.1), Effect.USEFUL),
    "nothing came": (0.3, Outcome(0.0, 0.0), Effect.USELESS),
    "the critical site got slower": (0.3, Outcome(-0.1, 0.0), Effect.HARMFUL),
    "balance is the same, but everything waits for moves": (0.3, Outcome(0.0, -0.4), Effect.HARMFUL),
    "so few rows that nothing can be told": (0.1, Outcome(0.04, 0.0, noise=0.05), Effect.UNCLEAR),
    "harm within the noise": (0.1, Outcome(-0.08, -0.08, noise=0.05), Effect.UNCLEAR),
    "little was promised, noise gave much": (0.001, Outcome(0.2, 0.2), Effect.USELESS),
}


@pytest.mark.parametrize(("expected", "relief", "effect"), VERDICTS.values(), ids=VERDICTS.keys())
def test_moves_are_judged(expected, relief, effect):
    assert judge(expected, relief) is effect


@given(st.lists(st.sampled_from(list(Effect)), max_size=60))
def test_parameters_stay_within_their_limits(effects):
    tuning = Tuning.start(LIMITS)
    for effect in effects:
        tuning = tune(tuning, effect, LIMITS)
        assert LIMITS.keenest_imbalance <= tuning.imbalance <= LIMITS.laziest_imbalance
        assert LIMITS.minimum_round <= tuning.minimum_round <= LIMITS.longest_round
        assert tuning.pause_left <= LIMITS.longest_pause
        assert Tuning.from_json(tuning.to_json()) == tuning


def test_failure_after_failure_pauses_for_longer_each_time():
    tuning, pauses = Tuning.start(LIMITS), []
    for _ in range(30):
        tuning = tune(tuning, Effect.HARMFUL, LIMITS)
        if tuning.paused:
            pauses.append(tuning.pause_left)
            while tuning.paused:
                tuning = relax(tuning, LIMITS)
    assert pauses[:5] == [16, 32, 64, 128, 256]


def test_caution_wears_off_and_ends_when_the_load_shifts():
    tuning = tune(tune(Tuning.start(LIMITS), Effect.USELESS, LIMITS), Effect.USELESS, LIMITS)
    assert tuning.imbalance > relax(tuning, LIMITS).imbalance > LIMITS.imbalance
    assert relax(tuning, LIMITS, shifted=True).imbalance == pytest.approx(LIMITS.imbalance)


@given(st.floats(0.01, 10), st.floats(0.01, 100), st.booleans(), st.floats(0, 100))
def test_damping_follows_the_move_phase_halves_without_moves_and_keeps_its_minimum(
    minimum, previous, moved, phase
):
    length = Damping(minimum).next_length(previous, moved=moved, move_phase=phase)
    assert length == max(minimum, phase if moved else previous / 2)


def test_costs_are_found_from_what_sites_report():
    fit, rng = CostFit(), np.random.default_rng(1)
    site_of = np.arange(64) // 8
    for _ in range(20):
        rows, matches = rng.integers(100, 5000, 64), rng.integers(0, 50_000, 64)
        busy = 0.01 + np.bincount(site_of, 2e-6 * rows + 3e-7 * matches)
        fit.add(Statistics.of_batch(busy, rows, matches=matches), site_of)
    model = fit.model
    assert model.match_s == pytest.approx(3e-7, rel=0.2)
    assert model.row_s == pytest.approx(2e-6, rel=0.5)


@given(st.lists(st.floats(0.5, 2.0), min_size=8, max_size=8))
def test_slowness_is_between_what_was_measured_and_the_usual(ratios):
    slowness = Slowness(decay=0.8)
    for _ in range(3):
        slowness.add(np.array(ratios), np.ones(8))
    usual = float(np.exp(np.median(np.log(ratios))))
    low, high = np.minimum(ratios, usual), np.maximum(ratios, usual)
    assert (slowness.estimate() >= low - 1e-9).all()
    assert (slowness.estimate() <= high + 1e-9).all()
