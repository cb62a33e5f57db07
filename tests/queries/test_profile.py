"""Profiles behave like sets of rows."""

from __future__ import annotations

import random

import pyarrow as pa
import pytest

from anabranch.operators.filter.group_filter import GroupFilter
from anabranch.queries.profile import EMPTY, Profile
from tests.queries.generated_groups import STREAMS, bound, filtered, rows_of


def profile(text: str) -> Profile:
    return Profile.of(bound(text), STREAMS)


def test_the_profiles_of_the_paper() -> None:
    join = profile("SELECT a.v, b.w FROM a [NOW], b [NOW] WHERE a.k = b.k AND a.v > 10")
    rows = profile("SELECT v FROM a WHERE v > 20")
    assert join.streams == {"a", "b"}
    assert join.covers(rows)
    assert not rows.covers(join)
    assert (join | rows) == join


@pytest.mark.parametrize("seed", range(20))
def test_union_and_intersection_hold_the_rows_they_should(seed: int) -> None:
    rng = random.Random(seed)
    one, other = profile(any_rows(rng)), profile(any_rows(rng))
    rows = rows_of(rng, "a", 0, 200)
    taken, too = passing(one, rows), passing(other, rows)
    assert passing(one | other, rows) == taken | too
    assert passing(one & other, rows) == taken & too
    if one.covers(other):
        assert too <= taken
    assert (one | other).covers(one)
    assert (one | EMPTY) == one


def any_rows(rng: random.Random) -> str:
    """A filter that is all constraints."""
    while "= a.id" in (text := filtered(rng)):
        pass
    return "SELECT id FROM a" + "".join(text.partition(" WHERE ")[1:])


def passing(profile: Profile, rows: pa.Table) -> set[int]:
    interest = profile.interests.get("a")
    if interest is None:
        return set()
    columns = {name: rows.column(name.split("`")[1]).cast(kind) for name, kind in interest.types.items()}
    filters = GroupFilter(interest.types)
    filters.add(0, interest.filters)
    table = pa.table({**columns, "id": rows.column("id")})
    return {int(row) for matches in filters.matches(table) for row in matches.rows}


def test_the_rate_falls_with_every_filter() -> None:
    rates = {"a": 100.0, "b": 10.0}
    assert profile("SELECT id FROM a").rate(rates) == 100
    some = profile("SELECT id FROM a WHERE v > 1").rate(rates)
    assert 0 < profile("SELECT id FROM a WHERE v > 1 AND s = 'x'").rate(rates) < some < 100
