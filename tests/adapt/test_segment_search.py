"""The search for the length of segments finds the peak, and rests when there is nothing to find."""

from __future__ import annotations

import random

import pytest

from anabranch.adapt.routing.segment_search import REST, SegmentSearch


def searched(start: int, best: int, batches: int, *, noise: float = 0.0) -> tuple[SegmentSearch, list[int]]:
    draw, search, lengths = random.Random(4), SegmentSearch(start), []
    for _ in range(batches):
        far = max(search.wanted, best) / min(search.wanted, best)
        search = search.observed((1 / far) * (1 + noise * (draw.random() - 0.5)))
        lengths.append(search.wanted)
    return search, lengths


@pytest.mark.parametrize("start", [125, 1_000, 16_000])
def test_the_search_ends_within_a_factor_of_two_of_the_best_length(start: int) -> None:
    search, _ = searched(start, 1_000, 120)
    assert 500 <= search.length <= 2_000


def test_noise_below_the_threshold_moves_nothing_and_trials_become_rare() -> None:
    draw, search, changed = random.Random(1), SegmentSearch(1_000), []
    for batch in range(600):
        before = search.wanted
        search = search.observed(1 + 0.05 * (draw.random() - 0.5))
        if search.wanted != before:
            changed.append(batch)
    assert search.length == 1_000
    assert len([b for b in changed if b < 100]) > len([b for b in changed if b >= 500])
    assert search.patience > REST


def test_a_search_survives_its_way_through_a_manifest() -> None:
    search, _ = searched(125, 1_000, 7)
    assert SegmentSearch.from_json(search.to_json()) == search
