"""A query that is said to be contained in another has no result that the other has not, on any data tried."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterable

import pyarrow as pa
import pytest

from anabranch.plan.logical import Query
from anabranch.queries.containment import contained
from anabranch.testing.stream_model import expected_rows
from tests.queries.generated_groups import STREAMS, A, B, bound, distinct, grouped, joined, rows_of

ALL = [
    "{a}.id AS x",
    "{a}.k AS k",
    "{a}.v AS v",
    "{a}.s AS s",
    "{a}.m AS m",
    "{a}.ts AS t",
    "{b}.id AS y",
    "{b}.w AS w",
    "{b}.ts AS u",
]


def results(query: Query, tables: dict[str, pa.Table]) -> Counter[str]:
    rows = expected_rows(query, (A, B), tables)
    return Counter(repr(sorted(row.items())) for row in rows.to_pylist())


def looser(text: str, rng: random.Random) -> str:
    """The same query with a condition less, or a longer window."""
    head, _, where = text.partition(" WHERE ")
    conditions = where.split(" AND ")
    if "BETWEEN" not in where and "(" not in where and len(conditions) > 1 and rng.random() < 0.6:
        del conditions[rng.randrange(1, len(conditions))]
    head = head.replace("[RANGE 1 SECOND]", rng.choice(("[RANGE 1 SECOND]", "[RANGE 4 SECONDS]")))
    return f"{head} WHERE {' AND '.join(conditions)}"


def check(pairs: Iterable[tuple[Query, Query]], rng: random.Random) -> None:
    """Judge pairs of queries by running both."""
    tables = {name: rows_of(rng, name, 0, 60) for name in STREAMS}
    decided = told_apart = 0
    for inner, outer in pairs:
        if contained(inner, outer, STREAMS):
            decided += 1
            assert not results(inner, tables) - results(outer, tables), f"{inner.text}\n{outer.text}"
        else:
            told_apart += bool(results(inner, tables) - results(outer, tables))
    assert decided > 8
    assert told_apart > 2


@pytest.mark.parametrize("seed", range(3))
def test_a_contained_query_has_no_result_that_the_other_has_not(seed: int) -> None:
    rng = random.Random(seed)
    pairs = []
    for _ in range(25):
        first = joined(rng, ALL)
        second = looser(first, rng) if rng.random() < 0.7 else joined(rng, ALL)
        pairs += [(bound(first), bound(second)), (bound(second), bound(first))]
    check(pairs, rng)


@pytest.mark.parametrize("seed", range(3))
def test_contained_groups_have_the_same_values_by_theorem_32(seed: int) -> None:
    """HAVING is left to splitting, so that groups are compared without it."""
    rng = random.Random(seed)
    kinds = [rng.choice((grouped, distinct)) for _ in range(40)]
    check([(bound(all_values(kind(rng))), bound(all_values(kind(rng)))) for kind in kinds], rng)


def all_values(text: str) -> str:
    """A generated query with all aggregates, so that rows of two can be compared."""
    text, _, _ = text.partition(" HAVING")
    if "GROUP BY" in text:
        text = f"SELECT s, count(*) AS n, sum(v) AS total, max(k) AS most {text[text.index('FROM') :]}"
    return text


@pytest.mark.parametrize(
    ("inner", "outer", "expected"),
    [
        ("SELECT id FROM a WHERE v > 20", "SELECT id FROM a WHERE v > 10", True),
        ("SELECT id FROM a WHERE v > 10", "SELECT id FROM a WHERE v > 20", False),
        ("SELECT id FROM a WHERE s = 'ab'", "SELECT id FROM a WHERE s LIKE 'a%'", True),
        ("SELECT id FROM a WHERE k = 1 OR k = 2", "SELECT id FROM a WHERE k IN (1, 2, 3)", True),
        ("SELECT id FROM a WHERE k IN (1, 4)", "SELECT id FROM a WHERE k IN (1, 2, 3)", False),
        ("SELECT id FROM a WHERE v > 1", "SELECT id FROM a WHERE NOT (v IS NULL)", True),
        ("SELECT id FROM a WHERE v > 1", "SELECT id FROM a WHERE v <> 1", True),
        ("SELECT id FROM a WHERE v >= 1", "SELECT id FROM a WHERE v <> 1", False),
        ("SELECT id FROM a WHERE s IS NULL", "SELECT id FROM a", True),
        ("SELECT id FROM a WHERE v > 1 AND v < 1", "SELECT id FROM a WHERE s = 'q'", True),
    ],
)
def test_filters_decide(inner: str, outer: str, expected: bool) -> None:
    assert contained(bound(inner), bound(outer), STREAMS) is expected


JOIN = "SELECT a.id FROM a [RANGE {0} SECONDS], b [NOW] WHERE a.k = b.k"


def test_windows_of_joins_may_be_shorter_by_theorem_31() -> None:
    three, five = (bound(JOIN.format(n)) for n in (3, 5))
    assert contained(three, five, STREAMS)
    assert not contained(five, three, STREAMS)


def test_windows_of_aggregates_must_be_the_same_by_theorem_32() -> None:
    text = "SELECT s, count(*) AS n FROM a [RANGE {} SECONDS] {} GROUP BY s"
    three, five = (bound(text.format(n, "")) for n in (3, 5))
    assert not contained(three, five, STREAMS)
    assert contained(bound(text.format(3, "WHERE s = 'x'")), three, STREAMS), (
        "a filter of keys keeps groups whole"
    )
    assert not contained(bound(text.format(3, "WHERE v > 1")), three, STREAMS), "a filter of rows does not"


def test_the_auctions_of_table_31() -> None:
    q3 = bound("SELECT a.id FROM a [RANGE 3 HOURS], b [NOW] WHERE a.k = b.k")
    q4 = bound("SELECT a.id, b.w FROM a [RANGE 5 HOURS], b [NOW] WHERE a.k = b.k")
    q5 = bound("SELECT o.id, o.v, c.w FROM b [NOW] c, a [RANGE 5 HOURS] o WHERE o.k = c.k")
    assert contained(q3, q5, STREAMS)
    assert contained(q4, q5, STREAMS)
    assert not contained(q5, q3, STREAMS)
