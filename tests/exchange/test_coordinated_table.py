"""Coordinated routing brings every correlated group together once, by counting; and covers are covers."""

from __future__ import annotations

import random
from itertools import product

import pytest

from anabranch.exchange.coordinated_table import CoordinatedTable, Path, Stream, Unit
from anabranch.exchange.set_cover import greedy_cover

SITES = 6
Row = tuple[str, int, int, Unit]
"""Stream, time, batch and unit."""


def routed_rows(draw: random.Random) -> tuple[list[Stream], list[Row], dict[Unit, Path], CoordinatedTable]:
    """Rows out of order in a few batches, with the paths of their units."""
    names = "abcd"[: draw.choice((2, 3, 3, 4))]
    streams = [Stream(name, rank, draw.choice((1, 4, 7))) for rank, name in enumerate(names)]
    length = draw.choice((1, 3, 8))
    table = CoordinatedTable.empty(streams)
    rows: list[Row] = []
    paths: dict[Unit, Path] = {}
    for batch in range(4):
        for stream in streams:
            times = [batch * 5 + draw.randrange(-6, 6) for _ in range(draw.randrange(5))]
            units = {
                t: Unit(stream.alias, t // length * length, (t // length + 1) * length, batch) for t in times
            }
            for unit in dict.fromkeys(units.values()):
                loads = {site: draw.random() for site in range(SITES)}
                table, paths[unit] = table.routed(unit, loads)
            rows += [(stream.alias, t, batch, units[t]) for t in times]
    return streams, rows, paths, table


@pytest.mark.parametrize("seed", range(80))
def test_every_correlated_group_is_met_once_and_only_once(seed: int) -> None:
    streams, rows, paths, table = routed_rows(random.Random(seed))
    rank = {s.alias: s.rank for s in streams}
    for group in product(*([r for r in rows if r[0] == s.alias] for s in streams)):
        latest = max(row[1] for row in group)
        if any(latest - row[1] > s.window_us for row, s in zip(group, streams, strict=True)):
            continue
        origin = max(group, key=lambda row: (row[2], rank[row[0]]))
        found = 0
        for other in group:
            # Every row but the origin looks for nothing here: the origin is later than it.
            covers = paths[other[3]].hops
            reached = {u for hop in covers for u in hop.joined_at}
            found += all(row[3] in reached for row in group if row is not other)
        assert found == 1, (seed, group)
        for hop in paths[origin[3]].hops:
            (met,) = (row[3] for row in group if row[0] == hop.alias)
            site = hop.joined_at[met]
            assert site in hop.sites, "intermediate rows come by"
            assert site in table.placed[met], "and meet what is stored there"


@pytest.mark.parametrize("seed", range(20))
def test_units_go_only_when_no_row_can_reach_them(seed: int) -> None:
    draw = random.Random(seed)
    streams, _, _, table = routed_rows(draw)
    marks = {s.alias: draw.randint(0, 25) for s in streams}
    left = table.without_before(marks)
    for unit in table.placed.keys() - left.placed.keys():
        stream = next(s for s in streams if s.alias == unit.alias)
        others = [marks[s.alias] for s in streams if s.alias != unit.alias]
        assert unit.end - 1 + stream.window_us < min(others)


@pytest.mark.parametrize("seed", range(30))
def test_a_cover_covers_and_has_no_site_that_adds_nothing(seed: int) -> None:
    draw = random.Random(seed)
    places = {i: set(draw.sample(range(8), draw.randint(1, 3))) for i in range(draw.randrange(12))}
    cover = greedy_cover(places, {site: draw.random() for site in range(8)})
    assert all(sites & set(cover) for sites in places.values())
    assert len(set(cover)) == len(cover) <= len(places)


def test_a_hop_stays_where_the_rows_are_if_it_can() -> None:
    streams = [Stream(name, rank, 10) for rank, name in enumerate("abc")]
    b, c, a = (Unit(name, 0, 5, batch) for batch, name in enumerate("bca"))
    table = CoordinatedTable(tuple(streams), {b: (1, 2), c: (2, 3)}, {})
    _, path = table.routed(a, {1: 0.1, 2: 0.2, 3: 0.0})
    first, second = path.hops
    assert first.joined_at.keys() == {b} or first.joined_at.keys() == {c}
    assert set(second.sites) <= set(first.sites), "site 2 has both"
