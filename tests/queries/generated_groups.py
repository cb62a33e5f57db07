"""Sessions of queries that belong together: windows, filters, columns and aliases differ, joins do not."""

from __future__ import annotations

import random
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa

from anabranch.engine.settings import Settings
from anabranch.language.flow import bind_query
from anabranch.plan.logical import Column, Query, Stream
from tests.support.generated import Batch, Case, Phase

A = Stream(
    "a",
    (
        Column("id", "bigint"),
        Column("k", "bigint"),
        Column("v", "double"),
        Column("s", "string"),
        Column("m", "decimal(10,2)"),
        Column("ts", "timestamp"),
    ),
    "ts",
    3_000_000,
)
B = Stream(
    "b",
    (Column("id", "bigint"), Column("k", "bigint"), Column("w", "int"), Column("ts", "timestamp")),
    "ts",
    3_000_000,
)
STREAMS: Mapping[str, Stream] = {"a": A, "b": B}
NASTY = ("it's", 'a"b', "q;--", "é\n✈", "select", "_.%", "x" * 300)
"""Names of queries."""
TEXTS = (None, "", "a", "ab", "abc", "b", "it's", "é")
_FILTERS_A = (
    "{a}.v > 0",
    "{a}.v >= -1.5",
    "{a}.v < 2",
    "{a}.v <> 1",
    "{a}.s = 'ab'",
    "{a}.s LIKE 'a%'",
    "{a}.s IN ('a', 'b', 'it\\'s')",
    "{a}.s IS NULL",
    "NOT ({a}.s IS NULL)",
    "{a}.m > 0.5",
    "{a}.m <= 1.25",
    "({a}.k = 1 OR {a}.v > 1)",
    "NOT ({a}.k = 1 OR {a}.v > 1)",
    "{a}.k BETWEEN 1 AND 2",
    "{a}.k = {a}.id",
)
_FILTERS_B = ("{b}.w > 0", "{b}.w IN (1, 2)", "{b}.w IS NULL", "{b}.w < 1.5", "({b}.w = 0 OR {b}.k = 2)")
_RESIDUALS = ("{a}.v < {b}.w", "{a}.id <> {b}.id", "{a}.id + {b}.id > 5")
_OUTPUTS = (
    "{a}.id AS x",
    "{b}.id AS y",
    "{a}.s AS s",
    "{a}.v + {b}.w AS sum",
    "{a}.ts AS t",
    "{b}.ts AS u",
    "{a}.m AS m",
    "1 AS one",
)


def joined(rng: random.Random, outputs: list[str] | None = None) -> str:
    """A join of both streams on k."""
    aliases = {"a": rng.choice(("a", "o", "r1")), "b": rng.choice(("b", "c", "r0"))}
    windows = {
        name: rng.choice(("NOW", "RANGE 1 SECOND", "RANGE 2 SECONDS", "RANGE 5 SECONDS")) for name in "ab"
    }
    sources = [f"{name} [{windows[name]}] {aliases[name]}" for name in "ab"]
    rng.shuffle(sources)
    where = [
        "{a}.k = {b}.k",
        *_some(rng, _FILTERS_A, 2),
        *_some(rng, _FILTERS_B, 2),
        *_some(rng, _RESIDUALS, 1),
    ]
    outputs = outputs or _some(rng, _OUTPUTS, 4) or ["{a}.id AS x"]
    text = f"SELECT {', '.join(outputs)} FROM {', '.join(sources)} WHERE {' AND '.join(where)}"
    return text.format(**aliases) if "{" in text else text


def filtered(rng: random.Random) -> str:
    """Rows of one stream."""
    where = " AND ".join(_some(rng, _FILTERS_A, 3))
    outputs = ", ".join(_some(rng, ("a.id AS id", "a.k AS key", "a.s AS s"), 3) or ["a.id AS id"])
    return f"SELECT {outputs} FROM a{' WHERE ' if where else ''}{where}".format(a="a")


def grouped(rng: random.Random) -> str:
    """Aggregates by s over a window that all share."""
    where = ["a.v > -2", *_some(rng, ("a.s = 'ab'", "a.s LIKE 'a%'", "a.s IS NULL", "a.s > 'a'"), 1)]
    outputs = [
        "s",
        *(_some(rng, ("count(*) AS n", "sum(v) AS total", "max(k) AS most"), 3) or ["count(*) AS n"]),
    ]
    having = rng.choice(("", "", " HAVING count(*) > 1"))
    return (
        f"SELECT {', '.join(outputs)} FROM a [RANGE 2 SECONDS] WHERE {' AND '.join(where)} GROUP BY s{having}"
    )


def distinct(rng: random.Random) -> str:
    where = " AND ".join(["a.v > 0", *_some(rng, ("a.s = 'ab'", "a.s < 'b'"), 1)])
    return f"SELECT DISTINCT s FROM a [RANGE 2 SECONDS] WHERE {where}"


LEAVING = (joined, joined, filtered)
KINDS = (*LEAVING, grouped, distinct)


def group_case(seed: int, *, queries: int = 12) -> Case:
    """Two phases with a restart in between, after which some queries have left and others come."""
    rng = random.Random(seed)
    # Aggregates of the last rows come at the end of input, which those that leave before do not see.
    kinds = [KINDS if i >= queries // 3 else LEAVING for i in range(queries)]
    made = [bind_query(f"q{i}", rng.choice(kind)(rng), STREAMS) for i, kind in enumerate(kinds)]
    early, late = tuple(made[: queries * 2 // 3]), tuple(made[queries // 3 :])
    phases = tuple(
        Phase(some, _settings(rng), tuple(_batch(rng, 10 * number + i) for i in range(3)))
        for number, some in enumerate((early, late))
    )
    return Case((A, B), phases, flush_rows=rng.choice((3, 1 << 20)), wide_hash_bits=rng.choice((2, 64)))


def rows_of(rng: random.Random, name: str, second: float, count: int) -> pa.Table:
    columns: dict[str, list[Any]] = {
        "id": [rng.randrange(10) for _ in range(count)],
        "k": [rng.choice((None, 1, 2, 3)) for _ in range(count)],
        "v": [
            rng.choice((None, 0.0, -0.0, 1.0, 1.5, -1.5, float("nan"), float("inf"))) for _ in range(count)
        ],
        "s": [rng.choice(TEXTS) for _ in range(count)],
        "m": [rng.choice((None, "0.50", "0.51", "1.25", "-3.00")) for _ in range(count)],
        "w": [rng.choice((None, 0, 1, 2)) for _ in range(count)],
        "ts": [_at(second + rng.choice((0, 0.5, 1, 2, 2.000001))) for _ in range(count)],
    }
    kinds = {
        "id": pa.int64(),
        "k": pa.int64(),
        "v": pa.float64(),
        "s": pa.string(),
        "w": pa.int32(),
        "ts": pa.timestamp("us", "UTC"),
    }
    arrays = {
        c.name: pa.array(columns["m"], pa.string()).cast(pa.decimal128(10, 2))
        if c.name == "m"
        else pa.array(columns[c.name], kinds[c.name])
        for c in STREAMS[name].columns
    }
    return pa.table(arrays)


def _batch(rng: random.Random, second: float) -> Batch:
    return {name: rows_of(rng, name, second, rng.choice((0, 4, 12))) for name in STREAMS}


def _at(second: float) -> datetime:
    return datetime(2024, 1, 1, tzinfo=UTC) + timedelta(seconds=second)


def _settings(rng: random.Random) -> Settings:
    return Settings(
        sites=rng.choice((1, 2, 7)),
        slots=rng.choice((1, 2)),
        max_blocks=rng.choice((0, 12)),
        sharing="always",
    )


def _some(rng: random.Random, texts: tuple[str, ...], most: int) -> list[str]:
    return rng.sample(texts, rng.randrange(most + 1))


def bound(text: str, name: str = "q") -> Query:
    return bind_query(name, text, STREAMS)
