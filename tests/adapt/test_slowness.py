"""Who is called slow, and who only had a bad moment."""

from __future__ import annotations

import numpy as np

from anabranch.adapt.measures.slowness import Slowness


def test_a_hiccup_in_a_batch_of_milliseconds_makes_nobody_slow() -> None:
    busy = np.array([0.010, 0.004, 0.004, 0.004])
    estimates = []
    for hiccup_s in (0.0, 0.010):
        slowness = Slowness(decay=0.85, hiccup_s=hiccup_s)
        slowness.add(busy, np.full(4, 0.004))
        slowness.add(busy - [0.002, 0.0, 0.0, 0.0], np.full(4, 0.004))
        estimates.append(slowness.estimate())
    assert estimates[0][0] > 1.5
    assert estimates[1][0] < 1.2


def test_a_site_that_takes_twice_as_long_over_a_second_is_slow_all_the_same() -> None:
    slowness = Slowness(decay=0.85, hiccup_s=0.010)
    for _ in range(3):
        slowness.add(np.array([2.0, 1.0, 1.0, 1.0]), np.ones(4))
    assert slowness.estimate()[0] > 1.5
    assert np.allclose(slowness.estimate()[1:], 1.0)


def test_a_site_that_was_slow_once_is_not_called_slow() -> None:
    slowness = Slowness(decay=0.85)
    slowness.add(np.array([2.0, 1.0, 1.0, 1.0]), np.ones(4))
    assert np.allclose(slowness.estimate(), 1.0)


def test_the_noise_is_that_of_the_sites_once_they_have_been_seen() -> None:
    rng, slowness = np.random.default_rng(1), Slowness(decay=0.85)
    noise = [slowness.noise(wary=True)]
    for _ in range(12):
        slowness.add(rng.normal(1, 0.05, 8), np.ones(8))
        noise.append(slowness.noise(wary=True))
    assert noise[0] == noise[1] == 0.3
    assert 0.04 < noise[-1] < 0.08


def test_what_was_learnt_survives_a_restart() -> None:
    slowness = Slowness(decay=0.85, hiccup_s=0.010)
    slowness.add(np.array([2.0, 1.0, 1.0]), np.ones(3))
    again = Slowness.from_json(slowness.to_json(), decay=0.85, hiccup_s=0.010)
    for one in (slowness, again):
        one.add(np.array([2.1, 1.0, 0.9]), np.ones(3))
    assert np.allclose(slowness.estimate(), again.estimate())
