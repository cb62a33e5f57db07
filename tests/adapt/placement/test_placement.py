"""Placement decides as chapter 6 says."""

from __future__ import annotations

import random

import numpy as np
import pytest

from anabranch.adapt.placement.fragment import Apply, Meet, Source, Step, build_fragments
from anabranch.adapt.placement.homecoming import Away, Host, called_home
from anabranch.adapt.placement.load_request import LoadRequest, load_request
from anabranch.adapt.placement.partners import Partners, neighbouring_sites
from anabranch.adapt.placement.performance_ratio import Paths
from anabranch.adapt.placement.relocation import relocate
from anabranch.adapt.placement.selection import Placed, Selection, select
from anabranch.adapt.placement.workload import Workload

FILTER, JOIN = Step(20e-6, 0.5), Step(80e-6, 0.8)


def test_each_stream_has_a_fragment_and_a_join_goes_to_the_faster_flow() -> None:
    tree = Meet(JOIN, Meet(JOIN, Apply(FILTER, Source(0)), Source(1)), Apply(FILTER, Source(2)))
    first, second, third = build_fragments(0, tree, {0: 100.0, 1: 10.0, 2: 500.0})
    assert [f.operators for f in (first, second, third)] == [2, 0, 2]
    assert (first.downstream, second.downstream, third.downstream) == (2, 0, None)
    assert first.work == pytest.approx({0: 20e-6 + 0.5 * 80e-6, 1: 80e-6})
    assert second.out == {1: 1.0}
    assert third.path == pytest.approx({0: 80e-6, 1: 80e-6, 2: 100e-6})


def test_a_row_far_from_home_waits_more_often_and_travels() -> None:
    fragments = build_fragments(0, Meet(JOIN, Source(0), Source(1)), {0: 2.0, 1: 1.0})
    paths, native = Paths.of(fragments), np.array([0, 1])
    wait, still = np.array([1e-3, 1e-3]), np.zeros(2)
    at_home = paths.ratios(np.array([0, 1]), native, wait_s=wait, transfer_s=1e-3, stalled_s=still)
    together = paths.ratios(np.array([0, 0]), native, wait_s=wait, transfer_s=1e-3, stalled_s=still)
    swapped = paths.ratios(np.array([1, 0]), native, wait_s=wait, transfer_s=1e-3, stalled_s=still)
    assert at_home[0] == pytest.approx((1e-3 + 80e-6) / 80e-6)
    assert at_home[1] == pytest.approx((3e-3 + 80e-6) / 80e-6)
    assert together[1] == pytest.approx((2e-3 + 80e-6) / 80e-6)
    assert (swapped > at_home).all()


def test_partners_are_symmetric_bounded_and_neighbours_first() -> None:
    partners = Partners(8, most_asked=2, most_accepted=1)
    pairs = {(0, 1): 5, (0, 2): 9, (0, 3): 1}
    assert neighbouring_sites(0, pairs) == [2, 1, 3]
    rng = random.Random(1)
    for site in range(8):
        partners.choose(site, neighbouring_sites(site, pairs), rng)
    assert partners.asked[0] == {1, 2}
    for site in range(8):
        assert len(partners.asked[site]) <= 2
        assert len(partners.accepted[site]) <= 1
        assert all(site in partners.of(other) for other in partners.of(site))


def test_short_peaks_are_not_told() -> None:
    workload = Workload(0.5, 0.5).after(1.0, alpha=0.9, kappa=1.2).after(0.5, alpha=0.9, kappa=1.2)
    assert workload.told == 0.5
    for _ in range(10):
        workload = workload.after(1.0, alpha=0.9, kappa=1.2)
    assert workload.told > 0.6


def test_a_site_asks_its_busiest_partner_for_half_the_difference_or_nobody() -> None:
    assert load_request(0, 0.5, {1: 0.55}, kappa=1.2) is None
    assert load_request(0, 0.5, {}, kappa=1.2) is None
    assert load_request(0, 0.1, {1: 0.5, 2: 0.7}, kappa=1.2) == LoadRequest(0, 2, pytest.approx(0.3))


def placed(number: int, native: int, *neighbours: int, load: float = 0.01, size: float = 100.0) -> Placed:
    return Placed(number, load, size, native, frozenset(neighbours))


GOES_HOME, GUEST, OWN = placed(0, 1), placed(1, 2), placed(2, 0)


def test_fragments_that_go_home_are_first_then_guests_then_natives() -> None:
    request = LoadRequest(receiver=1, sender=0, amount=1.0)
    found = [p.fragment for p, _ in select([request], [OWN, GUEST, GOES_HOME], workload=1.0)]
    assert found == [0, 1, 2]


def test_inside_a_class_neighbours_decide_as_in_figure_64() -> None:
    four = [placed(0, 2, 0), placed(1, 2), placed(2, 2, 0, 1), placed(3, 2, 1)]
    request = LoadRequest(receiver=1, sender=0, amount=1.0)
    assert [p.fragment for p, _ in select([request], four, workload=1.0)] == [3, 2, 1, 0]


def test_the_other_strategies_do_not_know_the_flow() -> None:
    heavy = placed(3, 0, load=0.05)
    request = [LoadRequest(receiver=1, sender=0, amount=1.0)]
    some = [GUEST, heavy, GOES_HOME]
    by = {how: [p.fragment for p, _ in select(request, some, workload=1.0, how=how)] for how in Selection}
    assert by[Selection.ELEMENTARY] == [3, 0, 1]
    assert by[Selection.INTERMEDIATE] == [0, 1, 3]


def test_no_more_than_asked_for_and_no_more_than_half_leaves() -> None:
    many = [placed(i, 0, load=0.1) for i in range(10)]
    asked = [LoadRequest(1, 0, 0.25), LoadRequest(2, 0, 0.65)]
    moved = list(select(asked, many, workload=1.0))
    assert sum(1 for _, to in moved if to == 2) == 5, "the larger request first, and half of the workload"
    assert sum(1 for _, to in moved if to == 1) == 0
    assert not list(select(asked, many, workload=1.0, exported=0.5))


AWAY = [Away(i, 0.1, stream=i % 2, site=1 + i % 3) for i in range(12)]
"""Of each of two streams two fragments at each of three sites."""


def homecomers(
    *, workload: float = 0.1, average: float = 0.5, host: float = 2.0, gives: float = 9.0
) -> list[int]:
    hosts = {site: Host(host, gives) for site in (1, 2, 3)}
    return [a.fragment for a in called_home(AWAY, hosts, workload=workload, average=average)]


def test_fragments_come_home_until_their_site_has_as_much_to_do_as_its_partners() -> None:
    assert homecomers() == [0, 6, 4, 10], "those of one stream and one site together"
    assert homecomers(average=9.0) == [0, 6, 4, 10, 2, 8, 3, 9, 1, 7, 5, 11]
    assert homecomers(workload=0.45) == []


def test_nobody_calls_home_what_would_make_it_busier_than_the_site_that_gives() -> None:
    assert homecomers(average=9.0, host=0.45) == [0, 4]


def test_half_of_its_workload_leaves_a_site_in_a_round_also_when_it_goes_home() -> None:
    assert homecomers(average=9.0, gives=0.15) == [0, 4, 2]


def test_a_fragment_resumes_after_the_last_row_that_was_processed() -> None:
    move = relocate(4, sender=0, receiver=1, now=10.0, drain_s=0.1, state_bytes=1e6, bytes_per_s=1e7)
    assert (move.takes(10.0), move.takes(10.001)) == (False, True)
    assert move.waits(10.1) == pytest.approx(0.1)
    assert move.waits(11.0) == 0.0
