"""Nasty inputs of reliability.md that concern ingest, on a real Spark. Numbers are those of its list.

One session with many queries per group: that is the product, and it is quick.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

import anabranch as ab
from anabranch.engine.event_time import MAX_TIME_US
from anabranch.engine.sinks.memory_sink import MemorySink
from anabranch.language.flow import bind_query
from anabranch.plan.logical import Column, Stream
from anabranch.testing.stream_model import accepted_rows, expected_rows
from tests.engine.xxhash_collisions import colliding_pair
from tests.spark.spark_sessions import run_to_the_end, write_batches
from tests.support.generated import Batch
from tests.support.oracle_check import check_rows

pytestmark = pytest.mark.spark

NANS = np.array([0x7FF8000000000000, 0x7FF8000000000001, 0xFFF8000000000000, 0x7FF0000000000001], np.uint64)
DOUBLES = [*NANS.view(np.float64), 0.0, -0.0, np.inf, -np.inf, 2.0**53, 1.5, None]
LONGS = [2**53, 2**53 + 1, 2**53 + 2, 2**63 - 1, -(2**63), 0, 1, None]
MEGABYTE = "x" * (1 << 20)
TEXTS = [
    "", "x" * 65535, "x" * 65536, "x" * 65537, MEGABYTE, MEGABYTE + "a", MEGABYTE + "b", "\x00", "a\x00b",
    "a", "\u00e9", "e\u0301", "A", "a ", "\U0001f926\U0001f3fc", "\U0001f926", None,
]  # fmt: skip
BINARIES = [*colliding_pair(0), *colliding_pair(1), b"", b"\x00", b"\xff\xfe", "\u00e9".encode(), None]
SMALL = [Decimal(v) for v in ("0.00", "1.00", "2.50", "-1.00")]
SCALED = [Decimal(v) for v in ("0.0000", "1.0000", "2.5000", "2.5001", "-1.0000")]


def spread(values: Sequence[Any], size: int) -> list[Any]:
    return [values[i % len(values)] for i in range(size)]


def nasty_rows(first: int, size: int) -> pa.Table:
    """Every pool once or more, so that every value meets every other in an unbounded window."""
    return pa.table(
        {
            "id": pa.array(range(first, first + size), pa.int32()),
            "d": pa.array(spread(DOUBLES, size), pa.float64()),
            "f": pa.array(spread([0.0, -0.0, float("nan"), 1.5, None], size), pa.float32()),
            "b": pa.array(spread(LONGS, size), pa.int64()),
            "i": pa.array(spread([0, 1, 2, -1, None], size), pa.int32()),
            "n": pa.array(spread([*SMALL, None], size), pa.decimal128(10, 2)),
            "m": pa.array(spread([*SCALED, None], size), pa.decimal128(12, 4)),
            "s": pa.array(spread(TEXTS, size), pa.string()),
            "x": pa.array(spread(BINARIES, size), pa.binary()),
            "ts": pa.array([1_700_000_000_000_000 + i % 3 for i in range(size)], pa.timestamp("us")),
        }
    )


COLUMNS = (
    Column("id", "int"), Column("d", "double"), Column("f", "float"), Column("b", "bigint"),
    Column("i", "int"), Column("n", "decimal(10,2)"), Column("m", "decimal(12,4)"), Column("s", "string"),
    Column("x", "binary"), Column("ts", "timestamp"),
)  # fmt: skip
LEFT, RIGHT = Stream("l", COLUMNS, "ts", 10), Stream("r", COLUMNS, "ts", 10)
FROM = "FROM l [RANGE UNBOUNDED], r [RANGE UNBOUNDED]"
KEYS = {
    "nan_and_zeros": "l.d = r.d",
    "float_and_double": "l.f = r.d",
    "long_and_double": "l.b = r.d",
    "decimals_of_different_scale": "l.n = r.m",
    "int_and_decimal": "l.i = r.m",
    "text": "l.s = r.s",
    "binary": "l.x = r.x",
    "several": "l.d = r.d AND l.x = r.x AND l.i = r.i",
    "text_and_more": "l.s = r.s AND l.n = r.n",
}


def test_keys_that_engines_confuse_join_as_in_the_oracle(spark: SparkSession, tmp_path: Path) -> None:
    """1 NULL, 2 NaN and zeros, 16 numbers of different types, 17 long keys, 18 text, 19 collisions."""
    texts = {name: f"SELECT l.id AS l, r.id AS r {FROM} WHERE {where}" for name, where in KEYS.items()}
    # Chains on different keys run on one site and probe by the hash that travels with the row.
    texts["chain"] = (
        "SELECT a.id AS a, b.id AS b, c.id AS c FROM l [RANGE UNBOUNDED] a, r [RANGE UNBOUNDED] b, "
        "l [RANGE UNBOUNDED] c WHERE a.x = b.x AND b.d = c.d AND a.id < 9 AND c.id < 9"
    )
    batches: list[Batch] = [
        {"l": nasty_rows(0, 17), "r": nasty_rows(0, 17)},
        {"l": nasty_rows(17, 17), "r": nasty_rows(17, 17)},
    ]
    check_session(spark, tmp_path, (LEFT, RIGHT), texts, batches, sites=7)


def test_the_collisions_are_real_in_spark(spark: SparkSession) -> None:
    """19: otherwise the test above would show nothing."""
    for number in range(3):
        one, other = colliding_pair(number)
        assert one != other
        row = spark.sql(
            f"SELECT xxhash64(X'{one.hex()}') AS one, xxhash64(X'{other.hex()}') AS other"
        ).first()
        assert row is not None
        assert row.one == row.other


def test_text_that_is_not_utf_8_is_compared_byte_by_byte(spark: SparkSession, tmp_path: Path) -> None:
    """18: a source may bring text that is none; it must neither fail nor match what it is not."""
    broken = pa.array([b"\xff", b"\xfe", b"\xff\xff", b"ok"], pa.binary()).view(pa.string())
    stream = Stream("l", (Column("id", "int"), Column("s", "string"), Column("ts", "timestamp")), "ts")
    rows = pa.table(
        {"id": pa.array(range(4), pa.int32()), "s": broken, "ts": pa.array([0] * 4, pa.timestamp("us"))}
    )
    sink = MemorySink()
    text = "SELECT a.id AS a, b.id AS b FROM l [NOW] a, l [NOW] b WHERE a.s = b.s"
    write_batches(tmp_path, [stream], [{"l": rows}])
    run_to_the_end(spark, tmp_path, [stream], {"q": text}, {"q": sink}, sites=2)
    assert sorted(tuple(row.values()) for row in sink.table().to_pylist()) == [(i, i) for i in range(4)]


def test_text_keys_and_number_keys_are_refused_before_spark_starts() -> None:
    """16: string against number."""
    with pytest.raises(ab.QueryError, match="cannot be compared"):
        bind_query("q", f"SELECT l.id {FROM} WHERE l.s = r.i", {"l": LEFT, "r": RIGHT})


TIMED = (Column("id", "int"), Column("k", "int"), Column("ts", "timestamp"))
FAR = [-9_223_372_037_000_000, -1, 253_402_300_799_999_999, 2**63 - 1, MAX_TIME_US, None, -(2**63) + 1]


def timed(times: Sequence[int | None], kind: pa.DataType, first: int = 0) -> pa.Table:
    size = len(times)
    return pa.table(
        {
            "id": pa.array(range(first, first + size), pa.int32()),
            "k": pa.array([1] * size, pa.int32()),
            "ts": pa.array(times, pa.int64()).cast(kind),
        }
    )


def test_impossible_times_go_to_the_dead_letters_and_leave_the_watermark_alone(
    spark: SparkSession, tmp_path: Path
) -> None:
    """14: years 1677, 1969 and 9999, the ends of int64 and no time at all, as timestamps and as numbers."""
    instants, numbers = (
        Stream("t", TIMED, "ts", 5),
        Stream("u", (*TIMED[:2], Column("ts", "bigint")), "ts", 5),
    )
    good = [MAX_TIME_US - 2, MAX_TIME_US - 1]
    batches: list[Batch] = [
        {"t": timed([0, 1], pa.timestamp("us")), "u": timed([0, 1], pa.int64())},
        {"t": timed(FAR, pa.timestamp("us")), "u": timed(FAR, pa.int64())},
        {"t": timed(good, pa.timestamp("us"), 20), "u": timed(good, pa.int64(), 20)},
    ]
    texts = {"q": "SELECT t.id AS t, u.id AS u FROM t [RANGE UNBOUNDED], u [RANGE UNBOUNDED] WHERE t.k = u.k"}
    sinks = {"q": MemorySink()}
    write_batches(tmp_path, (instants, numbers), batches)
    run = run_to_the_end(spark, tmp_path, (instants, numbers), texts, sinks, sites=2)
    found = sorted(tuple(row.values()) for row in sinks["q"].table().to_pylist())
    assert found == sorted((a, b) for a in (0, 1, 20, 21) for b in (0, 1, 20, 21))
    marks = [p["streams"]["t"]["watermark"] for p in run.recentProgress]
    assert marks[0] == marks[1]
    progress = run.lastProgress
    assert progress is not None
    for name in ("t", "u"):
        account = progress["streams"][name]
        assert (account["accepted"], account["rejected"]) == (4, len(FAR))
    letters = pq.read_table(tmp_path / "checkpoint" / "dead_letters").to_pylist()
    assert sorted(letter["stream"] for letter in letters) == ["t"] * len(FAR) + ["u"] * len(FAR)
    assert all(letter["row"] for letter in letters)


CLOCK_TIMES = [
    datetime(2024, 3, 10, 1, 59, 59, 999999),
    datetime(2024, 3, 10, 2, 0),  # does not exist in New York
    datetime(2024, 3, 10, 2, 30),
    datetime(2024, 3, 10, 3, 0),
    datetime(2024, 11, 3, 0, 59),
    datetime(2024, 11, 3, 1, 30),  # exists twice in New York
    datetime(2024, 11, 3, 2, 0),
]


def test_event_time_is_utc_whatever_the_zone_of_the_session(spark: SparkSession, tmp_path: Path) -> None:
    """15: hours that are missing or come twice, and another session zone after a restart."""
    day = 86_400_000_000
    instants = Stream("p", TIMED, "ts", 400 * day)
    clocks = Stream("w", (*TIMED[:2], Column("ts", "timestamp_ntz")), "ts", 400 * day)
    micros = [
        int((t - datetime(1970, 1, 1)).total_seconds()) * 1_000_000 + t.microsecond for t in CLOCK_TIMES
    ]
    batches: list[Batch] = [
        {s: timed(part, pa.timestamp("us"), first) for s in ("p", "w")}
        for part, first in ((micros[:4], 0), (micros[4:], 10))
    ]
    texts = {
        "near": "SELECT p.id AS p, w.id AS w FROM p [RANGE 30 MINUTES], w [RANGE 30 MINUTES] WHERE p.k = w.k",
        "parts": "SELECT id, hour(ts) AS hour, CAST(ts AS DATE) AS day, ts FROM p",
    }
    sinks = {name: MemorySink() for name in texts}
    zone = spark.conf.get("spark.sql.session.timeZone")
    try:
        for number, name in enumerate(("America/New_York", "Asia/Kathmandu")):
            spark.conf.set("spark.sql.session.timeZone", name)
            write_batches(tmp_path, (instants, clocks), batches[number : number + 1], first=number)
            run_to_the_end(spark, tmp_path, (instants, clocks), texts, sinks, sites=2 + number)
    finally:
        spark.conf.set("spark.sql.session.timeZone", zone or "UTC")
    check_queries((instants, clocks), texts, batches, sinks)


def check_session(
    spark: SparkSession,
    root: Path,
    streams: Sequence[Stream],
    texts: dict[str, str],
    batches: Sequence[Batch],
    **settings: int,
) -> None:
    sinks = {name: MemorySink() for name in texts}
    write_batches(root, streams, batches)
    run_to_the_end(spark, root, streams, texts, sinks, **settings)
    check_queries(streams, texts, batches, sinks)


def check_queries(
    streams: Sequence[Stream], texts: dict[str, str], batches: Sequence[Batch], sinks: dict[str, MemorySink]
) -> None:
    models = accepted_rows(streams, batches)
    for name, text in texts.items():
        query = bind_query(name, text, {s.name: s for s in streams})
        tables = {stream: model.rows_for(query) for stream, model in models.items()}
        expected = expected_rows(query, streams, tables)
        assert expected.num_rows, f"{name} shows nothing"
        check_rows(sinks[name].table(), expected, what=name)
