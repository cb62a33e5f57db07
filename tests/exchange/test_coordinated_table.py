"""Coordinated routing brings every correlated group together once, by counting; and covers are covers."""

from __future__ import annotations

import random
import sys
from dataclasses import replace
from itertools import permutations, product

import numpy as np
import pytest

from anabranch.exchange.batch_paths import BatchPaths
from anabranch.exchange.coordinated_table import CoordinatedTable, Path, Stream, Unit, unit_number
from anabranch.exchange.set_cover import cover, shared_out

SITES = 6
Row = tuple[str, int, int, int]
"""Reference, time, batch and unit."""


def streams_of(names: str, windows: dict[str, int]) -> tuple[Stream, ...]:
    orders = {name: tuple(permutations(n for n in names if n != name)) for name in names}
    return tuple(Stream(name, windows[name], 1.0, orders[name]) for name in names)


def routed_rows(
    draw: random.Random,
) -> tuple[tuple[Stream, ...], list[Row], dict[tuple[str, int], Path], CoordinatedTable]:
    """Rows out of order in a few batches, with the paths of their units; places come and go."""
    names = "abcd"[: draw.choice((2, 3, 3, 4))]
    streams = streams_of(names, {name: draw.choice((1, 4, 7)) for name in names})
    table = CoordinatedTable(streams)
    rows: list[Row] = []
    paths: dict[tuple[str, int], Path] = {}
    marks: dict[str, int | None] = dict.fromkeys(names)
    for batch in range(5):
        lanes = draw.sample(range(SITES), draw.randint(1, SITES))
        loads = {place: draw.random() for place in range(SITES)}
        here = BatchPaths(
            table, batch, lanes=lanes, loads=loads, watermarks=marks, warm_up=draw.choice((1, 3))
        )
        segments = draw.choice((1, 2, 3))
        found = here.of_all(dict.fromkeys(names, segments))
        units: dict[str, list[Unit]] = {}
        for name in names:
            low = -6 if marks[name] is None else max(-6, marks[name] - batch * 5)
            times = [batch * 5 + draw.randrange(low, 6) for _ in range(draw.randrange(5))]
            for segment in range(segments):
                its = [t for t in times if t % segments == segment]
                number = unit_number(batch, segment)
                paths[name, number] = found[name][segment]
                rows += [(name, t, batch, number) for t in its]
                if its:
                    unit = Unit(number, found[name][segment].places, min(its), max(its), len(its))
                    units.setdefault(name, []).append(unit)
            if times:
                marks[name] = max(marks[name] or 0, max(times) - 6)
        table = table.added(units)
        if draw.random() < 0.5:
            table = table.without_before(marks)
    return streams, rows, paths, table


@pytest.mark.parametrize("seed", range(80))
def test_every_correlated_group_is_met_once_and_only_once(seed: int) -> None:
    streams, rows, paths, _ = routed_rows(random.Random(seed))
    rank = {s.alias: i for i, s in enumerate(streams)}
    for group in product(*([r for r in rows if r[0] == s.alias] for s in streams)):
        latest = max(row[1] for row in group)
        if any(latest - row[1] > s.window_us for row, s in zip(group, streams, strict=True)):
            continue
        origin = max(group, key=lambda row: (row[2], rank[row[0]]))
        finders = []
        for row in group:
            hops = paths[row[0], row[3]].hops
            units = {other[0]: other[3] for other in group if other is not row}
            if hops and all(any(units[h.alias] in u for u in h.joined.values()) for h in hops):
                finders.append(row)
        assert finders == [origin], (seed, group)
        for hop in paths[origin[0], origin[3]].hops:
            (met,) = (row[3] for row in group if row[0] == hop.alias)
            (place,) = (place for place, units in hop.joined.items() if met in units)
            assert place in paths[hop.alias, met].places, "and meet what is stored there"
        first = paths[origin[0], origin[3]]
        assert set(first.hops[0].joined) <= set(first.places), "the first hop is where rows are sent"


@pytest.mark.parametrize("seed", range(20))
def test_units_go_only_when_no_row_can_reach_them(seed: int) -> None:
    draw = random.Random(seed)
    streams, _, _, table = routed_rows(draw)
    marks: dict[str, int | None] = {s.alias: draw.randint(0, 25) for s in streams}
    left = table.without_before(marks)
    for stream in streams:
        others = [mark for alias, mark in marks.items() if alias != stream.alias and mark is not None]
        for unit in set(table.units.get(stream.alias, ())) - set(left.units[stream.alias]):
            assert unit.last + stream.window_us < min(others)


@pytest.mark.parametrize("seed", range(30))
def test_a_cover_covers_and_every_thing_is_joined_at_one_place_that_has_it(seed: int) -> None:
    draw = random.Random(seed)
    things = draw.randint(1, 12)
    has = np.zeros((8, things), dtype=np.bool_)
    for thing in range(things):
        has[draw.sample(range(8), draw.randint(1, 3)), thing] = True
    loads = np.array([draw.random() for _ in range(8)])
    needed = np.array([draw.choice((0.0, 1.0, 5.0)) for _ in range(things)])
    ranks = np.array(draw.sample(range(8), 8)) if draw.random() < 0.3 else np.empty(0, dtype=np.int64)
    found = cover(has, needed, np.array(draw.sample(range(8), 2)), loads, ranks)
    assert len(set(found.tolist())) == len(found) <= max(1, np.count_nonzero(needed))
    assert has[found][:, needed > 0].any(axis=0).all()
    total, before = np.zeros(8), loads.sum()
    owners = shared_out(has, needed, found, loads, total, np.ones(8), 2.0)
    assert ((owners >= 0) == (needed > 0)).all()
    assert all(owner in found and has[owner, thing] for thing, owner in enumerate(owners) if owner >= 0)
    assert total.sum() == pytest.approx(loads.sum() - before) == pytest.approx(2.0 if len(found) else 0.0)


def test_what_a_few_places_have_in_common_is_shared_out_evenly() -> None:
    """Three places have all of 60 things, one of which counts ten times; the first is loaded already."""
    has, needed = np.ones((3, 60), dtype=np.bool_), np.ones(60)
    needed[7] = 10.0
    loads = np.array([0.2, 0.0, 0.0])
    shared_out(has, needed, np.arange(3), loads, np.zeros(3), np.ones(3), 1.0)
    assert np.ptp(loads) < 0.03


def test_a_hop_stays_where_the_rows_are_if_it_can() -> None:
    streams = streams_of("abc", dict.fromkeys("abc", 10))
    units = {"b": (Unit(0, (1, 2), 0, 5, 1), Unit(1, (2,), 0, 5, 1)), "c": (Unit(0, (2, 3), 0, 5, 1),)}
    table = CoordinatedTable(streams, units)
    loads = {1: 0.1, 2: 0.1, 3: 0.0}
    streams = (replace(streams[0], orders=(("b", "c"),)), *streams[1:])
    paths = BatchPaths(
        replace(table, streams=streams), 2, lanes=(1, 2, 3), loads=loads, watermarks={}, warm_up=1
    )
    first, second = paths.routed("a", 0).hops
    assert set(second.joined) <= set(first.joined), "place 2 has both"


def steady_paths(sites: int, batches: int, segments: int, warm_up: int) -> tuple[list[int], list[float]]:
    """Places of units, and load by place, of three streams that have run for a while."""
    streams = streams_of("abc", dict.fromkeys("abc", batches))
    table, loads, sizes, total = CoordinatedTable(streams), dict[int, float](), [], [0.0] * sites
    for batch in range(6 * batches):
        marks: dict[str, int | None] = dict.fromkeys("abc", batch)
        here = BatchPaths(
            table, batch, lanes=range(sites), loads=loads, watermarks=marks, warm_up=warm_up, unit_load=1.0
        )
        paths = here.of_all(dict.fromkeys("abc", segments))
        if batch >= 3 * batches:
            sizes += [len(p.places) for its in paths.values() for p in its]
            for place in range(sites):
                total[place] += here.loads[place] - loads.get(place, 0.0)
        least = min(here.loads.values())
        loads = {place: 0.5 * (load - least) for place, load in here.loads.items()}
        new = {
            alias: [Unit(unit_number(batch, i), p.places, batch, batch, 10) for i, p in enumerate(its)]
            for alias, its in paths.items()
        }
        table = table.added(new).without_before(marks)
    return sizes, total


@pytest.mark.parametrize(("sites", "warm_up", "most"), [(6, 3, 3.6), (30, 6, 8.5)])
def test_covers_stay_near_the_square_root_of_the_places_and_load_is_even(
    sites: int, warm_up: int, most: float
) -> None:
    sizes, total = steady_paths(sites, 8, 4, warm_up)
    assert sum(sizes) / len(sizes) <= most
    assert max(total) <= 1.35 * sum(total) / sites


def test_too_few_places_at_first_leave_sites_idle() -> None:
    _, total = steady_paths(30, 8, 4, 2)
    assert max(total) > 3 * sum(total) / 30


def calls_per_segment(batches: int) -> float:
    """Functions called for the decision of a segment, with a unit of each of some batches in reach."""
    draw = random.Random(5)
    units = {
        name: tuple(
            Unit(unit_number(b, 0), tuple(draw.sample(range(6), 3)), b, b, 10) for b in range(batches)
        )
        for name in "abc"
    }
    table = CoordinatedTable(streams_of("abc", dict.fromkeys("abc", batches)), units)
    here = BatchPaths(table, batches, lanes=range(6), loads={}, watermarks={}, warm_up=3)
    calls = 0

    def count(frame: object, event: str, argument: object) -> None:
        nonlocal calls
        calls += event in ("call", "c_call")

    sys.setprofile(count)
    try:
        here.of_all(dict.fromkeys("abc", 4))
    finally:
        sys.setprofile(None)
    return calls / 12


def test_what_a_decision_takes_hardly_grows_with_the_units_in_reach() -> None:
    few, many = calls_per_segment(48), calls_per_segment(480)
    assert few < 450
    assert many < 1.5 * few


def test_places_that_are_no_lanes_any_more_die_out() -> None:
    streams = streams_of("ab", {"a": 3, "b": 3})
    table = CoordinatedTable(streams, {"b": (Unit(0, (9,), 0, 0, 5),)})
    for batch in range(1, 13):
        marks: dict[str, int | None] = {"a": batch - 1, "b": batch - 1}
        here = BatchPaths(table, batch, lanes=(1, 2), loads={}, watermarks=marks, warm_up=1)
        paths = here.of_all({"a": 1, "b": 1})
        new = {n: [Unit(unit_number(batch, 0), p[0].places, batch, batch, 5)] for n, p in paths.items()}
        table = table.added(new).without_before(marks)
    assert 9 not in table.used()


def test_a_table_comes_back_from_the_manifest() -> None:
    streams, _, _, table = routed_rows(random.Random(3))
    assert replace(CoordinatedTable.from_json(table.to_json(), streams)) == table
