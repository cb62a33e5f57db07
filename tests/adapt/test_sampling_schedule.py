"""How often the optimizer looks: rarely at a stable load, at once when something changes."""

from __future__ import annotations

import json
from collections.abc import Callable
from itertools import pairwise

import pytest

from anabranch.adapt.plans.sampling_schedule import ENOUGH, RAREST, SOONEST, Rate, SamplingSchedule


def _looks(
    rows: Callable[[int], int], batches: int = 128, *, busy: Callable[[int], bool] = lambda _: False
) -> list[int]:
    sampling, looks = SamplingSchedule(), []
    for batch in range(batches):
        if sampling.is_due(batch):
            looks.append(batch)
        sampling = sampling.after(batch, {"rows": Rate(rows(batch) / 2, rows(batch))}, busy=busy(batch))
    return looks


def _gaps(looks: list[int]) -> list[int]:
    return [later - earlier for earlier, later in pairwise(looks)]


def test_looks_become_rarer_at_a_stable_load_but_never_end() -> None:
    gaps = _gaps(_looks(lambda _: 1000))
    assert gaps[0] == SOONEST
    assert gaps == sorted(gaps)
    assert gaps[-1] == RAREST


@pytest.mark.parametrize("factor", [2.0, 0.5, 0.0], ids=["twice as many", "half as many", "none at all"])
def test_a_shift_is_looked_at_in_the_next_batch_and_closely_from_then_on(factor: float) -> None:
    looks = [b for b in _looks(lambda b: 1000 if b < 40 else round(1000 * factor)) if b > 40]
    assert looks[:3] == [41, 41 + SOONEST, 41 + 2 * SOONEST]


def test_a_tenth_more_or_less_is_no_shift() -> None:
    assert _looks(lambda b: 1000 + (b % 3 - 1) * 100) == _looks(lambda _: 1000)


def test_a_handful_of_rows_changes_by_chance() -> None:
    few = ENOUGH // 4
    assert _looks(lambda b: few * (1 + b % 3)) == _looks(lambda _: 1000)


def test_looks_stay_close_while_a_plan_is_on_trial() -> None:
    assert set(_gaps(_looks(lambda _: 1000, busy=lambda _: True))) == {SOONEST}


def test_it_survives_its_encoding() -> None:
    sampling = SamplingSchedule().after(0, {"rows": Rate(5.0, 10)}, busy=False)
    assert SamplingSchedule.from_json(json.loads(json.dumps(sampling.to_json()))) == sampling
