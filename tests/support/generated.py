"""Hypothesis strategies: sessions of streams, queries, rows, batch splits and restarts.

A `Case` is everything that one session lives through. `oracle_check.check_case` runs it and compares
it with DuckDB. Rows are drawn as bytes, one per value, so that a case costs few draws and shrinks
towards equal keys at equal times::

    rows of s0   0 1 2 | 3 4 | 5 6 7 8 | 9        arrival order, cut into batches
    phase        ── sites=1 ──▶ ── sites=7, q1 added ──▶
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
from hypothesis import strategies as st

from anabranch.engine.event_time import MAX_TIME_US
from anabranch.engine.settings import Settings
from anabranch.language.flow import bind_query
from anabranch.plan.logical import Column, Query, Stream
from tests.support.generated_queries import select_texts

Batch = Mapping[str, pa.Table]

POOLS: dict[str, tuple[str, pa.DataType, tuple[Any, ...]]] = {
    "i": ("int", pa.int32(), (0, 1, 2, 3, -1, 2**31 - 1, -(2**31))),
    "l": ("bigint", pa.int64(), (0, 1, 2, 2**53, 2**53 + 1, 2**63 - 1, -(2**63))),
    "f": ("float", pa.float32(), (0.0, 1.0, -0.0, math.nan, 0.5, 2.0)),
    "d": ("double", pa.float64(), (0.0, 1.0, -0.0, math.nan, math.inf, -math.inf, 2.0**53, 0.5)),
    "n": ("decimal(10,2)", pa.decimal128(10, 2), tuple(map(Decimal, ("0.00", "1.00", "2.50", "-1.00")))),
    "w": ("decimal(20,5)", pa.decimal128(20, 5), tuple(map(Decimal, ("0.00000", "1.00000", "2.50000")))),
    "s": ("string", pa.string(), ("", "a", "A", "a ", "\u00e9", "e\u0301", "\x00", "\U0001f926", '"', "'")),
    "x": ("binary", pa.binary(), (b"", b"\x00", b"\xff", b"a", b"a\x00")),
    "e": ("date", pa.date32(), (date(1970, 1, 1), date(1969, 12, 31), date(9999, 12, 31))),
    "u": ("timestamp", pa.timestamp("us"), tuple(datetime(y, 3, 10, 2) for y in (1970, 1900, 2024))),
    "b": ("boolean", pa.bool_(), (False, True)),
}  # fmt: skip
"""Per kind of column its Spark type, its Arrow type, and values that engines like to confuse."""

BASES_US = (1_700_000_000_000_000, 0)
_NULL_FROM = 208
_BROKEN_FROM = 250
_BROKEN_TIMES = (None, -1, -(2**62), MAX_TIME_US, 253_402_300_799_999_999, 2**62)
_ROWS_BY_REFERENCES = {1: 40, 2: 36, 3: 18, 4: 10}
"""Rows per stream, so that not even a cross product with unbounded windows is big."""


@dataclass(frozen=True, slots=True)
class Phase:
    """What happens between two restarts."""

    queries: tuple[Query, ...]
    settings: Settings
    batches: tuple[Batch, ...]


@dataclass(frozen=True, slots=True)
class Case:
    """The life of one session."""

    streams: tuple[Stream, ...]
    phases: tuple[Phase, ...]
    wide_hash_bits: int = 64
    """Few bits make text, binary and decimal keys collide."""
    chunk_pairs: int = 1 << 20
    flush_rows: int = 1 << 20
    fan_in: int = 4
    """Blocks that compaction merges at least."""
    plan_seed: int | None = None
    """Chooses join trees, bushy ones and cross products included; None is the default plan."""
    together_rows: int = -1
    """New rows of sites that are worked on together; with fewer than none, each is worked on alone."""

    def __repr__(self) -> str:
        streams = "\n".join(f"  {s}" for s in self.streams)
        phases = "\n".join(
            f"  {p.settings}\n    "
            + "\n    ".join(f"{q.name}: {q.text}" for q in p.queries)
            + "".join(f"\n    batch: { {name: _plain(rows) for name, rows in b.items()} }" for b in p.batches)
            for p in self.phases
        )
        return (
            f"Case(bits={self.wide_hash_bits}, chunk={self.chunk_pairs}, flush={self.flush_rows}, "
            f"fan_in={self.fan_in}, plan_seed={self.plan_seed}, together={self.together_rows}\n"
            f"{streams}\n{phases})"
        )

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        printer.text(repr(self))


TOGETHER = (-1, 3, 4096)
"""Sites worked on one by one, some of them together, all of them together."""


@st.composite
def streams(draw: st.DrawFn, *, lateness: st.SearchStrategy[int] | None = None) -> tuple[Stream, ...]:
    """One to three streams with an `id`, a few typed columns and a time."""
    found = []
    for number in range(draw(st.integers(1, 3))):
        kinds = draw(st.lists(st.sampled_from(tuple(POOLS)), min_size=2, max_size=5, unique=True))
        columns = (Column("id", "int"), *(Column(k, POOLS[k][0]) for k in kinds), Column("ts", "timestamp"))
        late = draw(lateness if lateness is not None else st.sampled_from((0, 3, 1, 0, 8, 40)))
        found.append(Stream(f"s{number}", columns, "ts", late))
    return tuple(found)


@st.composite
def arrivals(draw: st.DrawFn, stream: Stream, size: int, *, base_us: int, broken: bool) -> pa.Table:
    """Rows of a stream in the order in which they arrive; times ascend, with some disorder."""
    kinds = [c.name for c in stream.columns if c.name in POOLS]
    width = len(kinds) + 1
    data = draw(st.binary(min_size=size * width, max_size=size * width))
    disorder = draw(st.sampled_from((12, 4, 1)))
    pace = draw(st.sampled_from((3, 1)))
    variety = draw(st.sampled_from((2, 3, 10)))
    times = []
    for row in range(size):
        byte = data[row * width]
        if broken and byte >= _BROKEN_FROM:
            times.append(_BROKEN_TIMES[byte % len(_BROKEN_TIMES)])
        else:
            times.append(base_us + (row // pace + byte % disorder - (disorder // 2 if byte & 64 else 0)))
    arrays: dict[str, pa.Array] = {"id": pa.array(range(size), pa.int32())}
    for position, kind in enumerate(kinds, start=1):
        _, arrow, pool = POOLS[kind]
        pool = pool[:variety]
        values = (data[row * width + position] for row in range(size))
        arrays[kind] = pa.array([None if v >= _NULL_FROM else pool[v % len(pool)] for v in values], arrow)
    arrays["ts"] = pa.array(times, pa.int64()).cast(pa.timestamp("us"))
    return pa.table(arrays).select([c.name for c in stream.columns])


@st.composite
def batch_splits(draw: st.DrawFn, rows: Mapping[str, pa.Table], count: int) -> tuple[Batch, ...]:
    """The rows of every stream cut into `count` batches, some of them empty."""
    cuts = {}
    for name, table in rows.items():
        inner = draw(st.lists(st.integers(0, table.num_rows), min_size=count - 1, max_size=count - 1))
        cuts[name] = [0, *sorted(inner), table.num_rows]
    return tuple(
        {name: t.slice(cuts[name][i], cuts[name][i + 1] - cuts[name][i]) for name, t in rows.items()}
        for i in range(count)
    )


@st.composite
def settings_of_phase(draw: st.DrawFn) -> Settings:
    return Settings(
        sites=draw(st.sampled_from((1, 2, 7))),
        slots=draw(st.sampled_from((1, 2, 3))),
        max_blocks=draw(st.sampled_from((0, 1, 12))),
    )


@st.composite
def cases(
    draw: st.DrawFn, *, nothing_late: bool = False, restarts: bool = True, on_spark: bool = False
) -> Case:
    """A whole session.

    Parameters
    ----------
    nothing_late
        Every row arrives in time, however the rows are split into batches.
    restarts
        Whether the session restarts with other sites, and queries come and go.
    on_spark
        Few batches, because they take long there; expressions of one stream, because only Spark
        evaluates them all; the same queries after a restart.
    """
    declared = draw(streams(lateness=st.just(1_000) if nothing_late else None))
    by_name = {s.name: s for s in declared}
    texts = draw(st.lists(select_texts(declared, computed=on_spark), min_size=2, max_size=4))
    queries = [bind_query(f"q{i}", text, by_name) for i, text in enumerate(texts)]
    most = max(len(q.refs) for q in queries)
    base = draw(st.sampled_from(BASES_US))
    broken = not nothing_late and draw(st.booleans())
    enough = _ROWS_BY_REFERENCES[most]
    size = draw(st.sampled_from((enough, enough, enough // 2, 1)))
    rows = {s.name: draw(arrivals(s, size, base_us=base, broken=broken)) for s in declared}
    count = draw(st.sampled_from((3, 4) if on_spark else (6, 10, 8, 3, 2, 1)))
    batches = draw(batch_splits(rows, count))
    return Case(
        declared,
        draw(_phases(queries, batches, restarts=restarts, queries_change=not on_spark)),
        wide_hash_bits=draw(st.sampled_from((64, 9, 1))),
        chunk_pairs=draw(st.sampled_from((1 << 20, 1, 3))),
        flush_rows=draw(st.sampled_from((1 << 20, 5))),
        fan_in=draw(st.sampled_from((2, 4))),
        together_rows=draw(st.sampled_from(TOGETHER)),
        plan_seed=draw(st.none() | st.integers(0, 20)),
    )


@st.composite
def _phases(
    draw: st.DrawFn,
    queries: list[Query],
    batches: tuple[Batch, ...],
    *,
    restarts: bool,
    queries_change: bool,
) -> tuple[Phase, ...]:
    most = 2 if queries_change else 1
    inner = st.lists(st.integers(1, max(1, len(batches) - 1)), min_size=2 - most, max_size=most, unique=True)
    bounds = [0, *sorted(draw(inner)), len(batches)] if restarts and len(batches) > 1 else [0, len(batches)]
    number = len(bounds) - 1
    lives = {
        q.name: draw(_lives(number)) if i and queries_change else (0, number) for i, q in enumerate(queries)
    }
    phases = []
    for i in range(number):
        running = [q for q in queries if lives[q.name][0] <= i < lives[q.name][1]]
        if i and draw(st.booleans()):
            running.reverse()
        settings = draw(settings_of_phase())
        phases.append(Phase(tuple(running), settings, batches[bounds[i] : bounds[i + 1]]))
    return tuple(phases)


@st.composite
def _lives(draw: st.DrawFn, number: int) -> tuple[int, int]:
    """First phase of a query, and the first without it."""
    first = draw(st.integers(0, number - 1))
    return first, draw(st.integers(first + 1, number))


def _plain(rows: pa.Table) -> list[tuple[Any, ...]]:
    """Rows as tuples, event time as microseconds: not every one of them is a Python datetime."""
    times = rows.column("ts").cast(pa.int64()).to_pylist()
    others = rows.drop_columns(["ts"]).to_pylist()
    return [(*row.values(), time) for row, time in zip(others, times, strict=True)]
