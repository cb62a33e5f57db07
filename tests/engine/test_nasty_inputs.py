"""Nasty inputs of reliability.md on the engine without a JVM; the numbers are those of its list."""

from __future__ import annotations

import pyarrow as pa
import pytest

from anabranch.engine.settings import Settings
from anabranch.plan.logical import Column, Stream
from anabranch.state import QueryStatus
from anabranch.state.paths import DEAD_LETTERS
from anabranch.testing.stream_model import expected_rows
from tests.engine.nasty_runs import START, bind, check, rows, running, stream
from tests.support.generated import Case, Phase
from tests.support.oracle_check import check_case, check_rows
from tests.support.storages import stored_rows

A, B, C = stream("a", 5), stream("b", 5), stream("c", 5)
SELECT = "SELECT a.id AS a, b.id AS b"
ON_KEY = f"{SELECT} FROM a [RANGE 10 MICROSECONDS], b [RANGE 4 MICROSECONDS] WHERE a.k = b.k"


def test_null_keys_match_nothing_in_one_or_all_columns() -> None:
    """1."""
    two_keys = ON_KEY + " AND a.v = b.v"
    chain = (
        "SELECT a.id AS a, b.id AS b, c.id AS c FROM a [RANGE UNBOUNDED], b [RANGE UNBOUNDED], "
        "c [RANGE UNBOUNDED] WHERE a.k = b.k AND b.v = c.v"
    )
    some = rows((None, 0), (1, 0), (None, 1), (1, 1), (0, 1))
    streams = (A, B, C)
    queries = bind(streams, one=ON_KEY, two=two_keys, chain=chain)
    check(streams, queries, {"a": some, "b": some, "c": some}, {"a": some, "b": some, "c": some})


@pytest.mark.parametrize("split", [False, True], ids=["one batch", "state and batch"])
def test_a_thousand_rows_of_one_key_and_one_time_on_each_side(split: bool) -> None:
    """3: a million pairs."""
    hot = rows(*[(7, 0)] * 1000)
    (query,) = bind((A, B), q=ON_KEY)
    with running((A, B), [query]) as run:
        for batch in [{"a": hot}, {"b": hot}] if split else [{"a": hot, "b": hot}]:
            run.batch({"a": rows(), "b": rows(), **batch})
        found = run.results("q")
        assert found.num_rows == 1_000_000
        assert len(found.group_by(["a", "b"]).aggregate([])) == 1_000_000


@pytest.mark.parametrize("distance", [3, 4, 5, 9, 10, 11])
@pytest.mark.parametrize("split", [False, True], ids=["one batch", "state and batch"])
def test_times_on_the_window_bound_and_a_microsecond_either_side(distance: int, split: bool) -> None:
    """4: the bound belongs to the window."""
    (query,) = bind((A, B), q=ON_KEY)
    older, newer = rows((1, 0)), rows((1, distance))
    for first, second, window in (("a", "b", 10), ("b", "a", 4)):
        batches = [{first: older}, {second: newer}] if split else [{first: older, second: newer}]
        check((A, B), [query], *batches)
        with running((A, B), [query]) as run:
            for batch in batches:
                run.batch({"a": rows(), "b": rows(), **batch})
            assert run.results("q").num_rows == (distance <= window)


def test_a_row_at_the_watermark_is_not_late_and_a_microsecond_below_it_is() -> None:
    """5: and the late row is kept with its reason."""
    (query,) = bind((A, B), q=ON_KEY)
    with running((A, B), [query]) as run:
        run.batch({"a": rows((1, 100)), "b": rows((1, 95))})
        summary = run.batch({"a": rows((1, 95), (1, 94)), "b": rows()})
        assert [(s.accepted, s.late) for s in summary.manifest.streams if s.name == "a"] == [(2, 1)]
        assert sorted(run.results("q").column("a").to_pylist()) == [0]
        letters = stored_rows(run.storage, DEAD_LETTERS)
    assert [(letter["stream"], letter["reason"], letter["event_time_us"] - START) for letter in letters] == [
        ("a", "late", 94)
    ]


def test_a_row_that_expires_in_the_batch_it_arrives_in_still_joins_there() -> None:
    """6: the batch brings times far beyond the row's window."""
    (query,) = bind((A, B), q=ON_KEY)
    check(
        (A, B),
        [query],
        {"a": rows((1, 0), (1, 1_000)), "b": rows((1, 2), (1, 1_000))},
        {"a": rows((1, 1_000)), "b": rows((1, 1_001))},
    )


def test_insert_and_expiry_of_one_key_in_one_batch() -> None:
    """7: old rows of the key leave as new ones come, and the key never mixes them."""
    (query,) = bind((A, B), q=ON_KEY)
    batches = [{"a": rows((1, 30 * i)), "b": rows((1, 30 * i + 3), (2, 30 * i))} for i in range(8)]
    check((A, B), [query], *batches)
    with running((A, B), [query], Settings(sites=1, slots=1)) as run:
        for batch in batches:
            manifest = run.batch(batch).manifest
        # Expired with the watermark of the batch before: at most the last two batches are left.
        assert {b.batch for b in manifest.blocks} <= {6, 7}


def test_self_joins_and_one_stream_with_two_windows() -> None:
    """8."""
    queries = bind(
        (A,),
        twice="SELECT x.id AS x, y.id AS y FROM a [RANGE 3 MICROSECONDS] x, a [RANGE 3 MICROSECONDS] y "
        "WHERE x.k = y.k",
        windows="SELECT x.id AS x, y.id AS y FROM a [NOW] x, a [RANGE UNBOUNDED] y WHERE x.k = y.k",
        thrice="SELECT x.id AS x, y.id AS y, z.id AS z FROM a [RANGE 9 MICROSECONDS] x, a [NOW] y, "
        "a [RANGE 2 MICROSECONDS] z WHERE x.k = y.k AND y.v = z.v",
    )
    batches = [{"a": rows(*[(i % 3, 4 * n + i) for i in range(8)], first=8 * n)} for n in range(6)]
    check((A,), queries, *batches, restart_at=3)


@pytest.mark.parametrize("sites", [1, 2, 7])
def test_wide_joins_with_or_and_other_predicates(sites: int) -> None:
    """10: three to five references, on a shared key, on chains and on none."""
    w = "[RANGE 6 MICROSECONDS]"
    queries = bind(
        (A, B, C),
        three=f"SELECT a.id AS a, b.id AS b, c.id AS c FROM a {w}, b {w}, c {w} "
        "WHERE a.k = b.k AND (b.v = c.v OR a.v < c.v)",
        four=f"SELECT a.id AS a, b.id AS b, c.id AS c, d.id AS d FROM a {w}, b {w}, c {w}, a {w} d "
        "WHERE a.k = b.k AND b.k = c.k AND c.k = d.k AND (a.v < d.v OR b.v > c.v)",
        five=f"SELECT a.id AS a, e.id AS e FROM a {w}, b {w}, c {w}, a {w} d, b [NOW] e "
        "WHERE a.k = b.k AND b.v = c.v AND c.k = d.k AND d.v < e.v AND abs(a.v - e.v) <= 1",
    )
    some = [rows(*[(i % 2, 2 * n + i % 3) for i in range(5)], first=5 * n) for n in range(3)]
    check((A, B, C), queries, *({"a": r, "b": r, "c": r} for r in some), sites=sites)


def test_late_rows_on_one_input_only() -> None:
    """11."""
    (query,) = bind((A, B), q=ON_KEY)
    check(
        (A, B),
        [query],
        {"a": rows((1, 50)), "b": rows((1, 0))},
        {"a": rows((1, 2), (1, 44), (1, 45)), "b": rows((1, 2), (1, 45), (1, 46))},
        {"a": rows((1, 51)), "b": rows((1, 44), (1, 51))},
    )


def test_a_stream_idle_for_a_hundred_batches_and_then_a_burst() -> None:
    """12: the idle stream pins the other's state, so the burst finds everything; then it is released."""
    (query,) = bind((A, B), q=f"{SELECT} FROM a [NOW], b [NOW] WHERE a.k = b.k")
    with running((A, B), [query], Settings(sites=1, slots=1, max_blocks=4)) as run:
        run.batch({"a": rows((1, 0)), "b": rows((1, 0))})
        for n in range(1, 101):
            run.batch({"a": rows((1, n), first=n), "b": rows()})
        manifest = run.batch({"a": rows(), "b": rows(*[(1, n) for n in range(101)])}).manifest
        # The first row of b met the first of a in batch 0; all of the burst meets one row each.
        assert run.results("q").num_rows == 102
        assert sum(b.rows for b in manifest.blocks) >= 100
        for time in (300, 301):
            manifest = run.batch({"a": rows((1, time)), "b": rows((1, time))}).manifest
        assert sum(b.rows for b in manifest.blocks) == 4


def test_the_newest_time_goes_backwards_and_a_restart_comes_in_between() -> None:
    """13: the watermark does not fall."""
    (query,) = bind((A, B), q=ON_KEY)
    check(
        (A, B),
        [query],
        {"a": rows((1, 100)), "b": rows((1, 100))},
        {"a": rows((1, 96)), "b": rows((1, 97))},
        {"a": rows((1, 95), (1, 94)), "b": rows((1, 96))},
        restart_at=2,
    )


@pytest.mark.parametrize("wanted", [True, False], ids=["a row of a query", "a row that no query wants"])
def test_a_row_too_far_ahead_does_not_move_the_watermark(wanted: bool) -> None:
    """14: with a configured drift, not even a row that every filter removes."""
    (query,) = bind((A, B), q=ON_KEY + (" AND a.v >= 0" if wanted else " AND a.v < 0"))
    far = pa.table(
        {
            "id": pa.array([0], pa.int32()),
            "k": pa.array([1], pa.int64()),
            "v": pa.array([0], pa.int32()),
            "ts": pa.array([7_000_000_000_000_000], pa.int64()).cast(pa.timestamp("us")),
        }
    )
    with running((A, B), [query], Settings(sites=1, slots=1, max_drift_seconds=60)) as run:
        summary = run.batch({"a": pa.concat_tables([far, rows((1, 9))]), "b": rows((1, 9))})
        (found,) = (s for s in summary.manifest.streams if s.name == "a")
        assert (found.max_ts, found.rejected, found.accepted) == (START + 9, 1, 1)
        assert [row["reason"] for row in stored_rows(run.storage, DEAD_LETTERS)] == ["too far ahead"]


@pytest.mark.parametrize("bits", [0, 1, 64], ids=["all collide", "most collide", "none collides"])
def test_wide_keys_that_collide_are_told_apart(bits: int) -> None:
    """17, 18, 19: length, bytes and case decide, not the hash; NUL is a byte like any other."""
    texts = ["", "\x00", "a", "a\x00", "A", "a ", "\u00e9", "e\u0301", "x" * 65536, "x" * 65535 + "y", None]
    columns = (Column("id", "int"), Column("s", "string"), Column("ts", "timestamp"))
    streams = tuple(Stream(n, columns, "ts", 5) for n in ("l", "r"))
    size = len(texts)
    table = pa.table(
        {
            "id": pa.array(range(size), pa.int32()),
            "s": pa.array(texts, pa.string()),
            "ts": pa.array([START] * size, pa.int64()).cast(pa.timestamp("us")),
        }
    )
    queries = bind(
        streams,
        one="SELECT l.id AS a, r.id AS b FROM l [NOW], r [NOW] WHERE l.s = r.s",
        two="SELECT l.id AS a, r.id AS b, m.id AS c FROM l [NOW], r [NOW], l [NOW] m "
        "WHERE l.s = r.s AND r.id = m.id",
    )
    batches = ({"l": table, "r": table}, {"l": table, "r": table})
    phase = Phase(queries, Settings(sites=7, slots=2), batches)
    check_case(Case(streams, (phase,), wide_hash_bits=bits))


def test_true_duplicates_count_as_often_as_they_come() -> None:
    """20: bag semantics."""
    (query,) = bind((A, B), q=ON_KEY)
    same = pa.concat_tables([rows((1, 0))] * 3)
    check((A, B), [query], {"a": same, "b": same}, {"a": same, "b": rows((1, 1))})


def test_a_batch_that_is_replayed_after_its_commit_gives_nothing_twice() -> None:
    """20."""
    (query,) = bind((A, B), q=ON_KEY)
    batch = {"a": rows((1, 0), (2, 1)), "b": rows((1, 0), (2, 1))}
    with running((A, B), [query]) as run:
        run.batch(batch)
        before = run.results("q")
        assert run.batch(batch, number=0).replayed
        check_rows(run.results("q"), before, what="replay")
        run.batch({"a": rows((1, 2), first=9), "b": rows()})
        assert run.results("q").num_rows == before.num_rows + 1


def test_one_key_with_nine_rows_in_ten() -> None:
    """22: on seven sites, with fan-out."""
    (query,) = bind((A, B), q=ON_KEY)
    skewed = [rows(*[(0 if i % 10 else i, 3 * n + i % 4) for i in range(40)], first=40 * n) for n in range(4)]
    check((A, B), [query], *({"a": r, "b": r} for r in skewed), sites=7)


def test_a_quota_ends_the_query_that_exceeds_it_and_no_other() -> None:
    """22: 10,000 × 10,000 pairs in one window; what the query published before stays."""
    big, small = bind(
        (A, B), big=ON_KEY, small=f"{SELECT} FROM a [NOW], b [NOW] WHERE a.k = b.k AND a.v = b.k"
    )
    hot = rows(*[(7, i % 3) for i in range(10_000)])
    with running((A, B), [big, small], Settings(sites=2, slots=2, quota_pairs=1_000_000)) as run:
        run.batch({"a": rows((1, 0)), "b": rows((1, 0))})
        manifest = run.batch({"a": hot, "b": hot}).manifest
        status = {q.name: q.status for q in manifest.queries}
        assert status["big"] is QueryStatus.FAILED
        assert run.results("big").num_rows == 1
        run.batch({"a": rows((1, 4), (1, 4), first=50), "b": rows((1, 4), first=60)})
        assert run.results("big").num_rows == 1
        assert 50 not in run.results("small").column("a").to_pylist()
        assert 51 in run.results("small").column("a").to_pylist()


def test_empty_batches_an_empty_side_and_a_filter_that_removes_all() -> None:
    """23."""
    queries = bind((A, B), q=ON_KEY, none=ON_KEY + " AND a.v < 0", alone="SELECT id FROM a WHERE v > 100")
    some = rows((1, 0), (2, 1))
    check((A, B), queries, {}, {"a": some}, {}, {"b": some}, {}, {"a": some, "b": some}, {}, restart_at=4)


def test_a_restart_without_one_of_two_queries_that_share_a_state_goes_on() -> None:
    """Blocks from before have columns that nobody wants any more; compaction merges them all the same."""
    one, two = bind((A, B), one=ON_KEY, two=ON_KEY.replace("b.id AS b", "a.v AS b"))
    batch = [{"a": rows((1, n)), "b": rows((1, n))} for n in range(9)]
    how = Settings(sites=1, slots=1, max_blocks=0)
    for second in ((one,), (two, one)):
        phases = (Phase((one, two), how, tuple(batch[:4])), Phase(second, how, tuple(batch[4:])))
        check_case(Case((A, B), phases, fan_in=2))


BEYOND_INT = rows((5_000_000_000, 0), (1, 1), (6_000_000_000, 2), (None, 2), (1, 3), (5_000_000_000, 4))


def test_a_cast_that_makes_null_of_a_key_lets_it_match_nothing() -> None:
    queries = bind(
        (A, B),
        both=ON_KEY.replace("a.k = b.k", "CAST(a.k AS INT) = CAST(b.k AS INT)"),
        one=ON_KEY.replace("a.k = b.k", "CAST(a.k AS INT) = b.k"),
        smaller=ON_KEY.replace("a.k = b.k", "CAST(a.k AS SMALLINT) = CAST(b.k AS INT)"),
    )
    check((A, B), queries, {"a": BEYOND_INT}, {"b": BEYOND_INT})


def test_a_cast_that_makes_null_of_keys_puts_them_into_one_group() -> None:
    text = (
        "SELECT CAST(a.k AS INT) AS k, COUNT(*) AS n FROM a [RANGE UNBOUNDED], b [RANGE UNBOUNDED] "
        "WHERE a.k = b.k GROUP BY CAST(a.k AS INT)"
    )
    (query,) = bind((A, B), q=text)
    tables = {"a": BEYOND_INT, "b": BEYOND_INT}
    with running((A, B), [query]) as run:
        run.batch(tables)
        run.end_of_input()
        check_rows(run.results("q"), expected_rows(query, (A, B), tables), what=text)
