"""The dense sessions of `restless_session` with aggregates and DISTINCT above their joins."""

from __future__ import annotations

import random
from dataclasses import replace

from anabranch.language.flow import bind_query
from anabranch.plan.logical import Query
from tests.support.generated import TOGETHER
from tests.support.generated_aggregates import AggregateCase, check_aggregates
from tests.support.restless_session import STREAMS, session_of

_SELECTED = (
    ("a.k, COUNT(*) AS n, SUM(a.id) AS s", "GROUP BY a.k"),
    ("c.k, MAX(a.id + c.id) AS hi, MIN(c.ts) AS first, AVG(a.id) AS m", "GROUP BY c.k HAVING COUNT(*) > 2"),
    ("a.id AS x, c.k, COUNT(*) AS n, MIN(c.id) AS lo", "GROUP BY a.id, c.k"),
    ("c.id AS x, COUNT(*) AS n", "GROUP BY c.id"),
    ("COUNT(*) AS n, MAX(a.id) AS hi", ""),
    ("c.k, window.start, COUNT(*) AS n, MAX(a.id) AS hi", "GROUP BY c.k, window({time}, '8 microseconds')"),
    (
        "a.k, window.end AS e, COUNT(DISTINCT c.id) AS n, median(a.id) AS m",
        "GROUP BY a.k, window({time}, '9 microseconds', '4 microseconds')",
    ),
    (
        "a.k, session_window.start, session_window.end AS e, SUM(c.id) AS s",
        "GROUP BY a.k, session_window({time}, '3 microseconds')",
    ),
    ("DISTINCT a.k", ""),
    ("DISTINCT a.k, a.id < c.id AS less", ""),
    ("DISTINCT a.id > 300 AS x", ""),
)
"""What is selected of a join of at least a and c, and what follows its conditions."""


def check_restless_groups(seed: int, *, isolation: str = "shared") -> None:
    """Run the session of a number while everything about it changes; raise where the oracle disagrees."""
    check_aggregates(grouped_session_of(seed, isolation=isolation))


def grouped_session_of(seed: int, *, isolation: str = "shared") -> AggregateCase:
    """A session with two grouped joins of two to four streams, a restart, and an end of input or two."""
    draw = random.Random(seed)
    queries = (
        _grouped(draw, "q", draw.choice(("abc", "abc", "abcd"))),
        _grouped(draw, "r", draw.choice(("ac", "cba"))),
    )
    phases = session_of(seed, batches=8).phases
    return AggregateCase(
        STREAMS,
        tuple(
            (
                queries,
                replace(phase.settings, isolation=isolation),
                phase.batches,
                phase is phases[-1] or draw.random() < 0.3,
            )
            for phase in phases
        ),
        wide_hash_bits=draw.choice((64, 3)),
        fan_in=2,
        chunk_rows=draw.choice((1 << 19, 3)),
        seed=seed,
        together_rows=draw.choice(TOGETHER),
    )


def _grouped(draw: random.Random, name: str, aliases: str) -> Query:
    selected, behind = draw.choice(_SELECTED)
    sources = ", ".join(f"{a} [RANGE {draw.choice((4, 9, 21))} MICROSECONDS]" for a in aliases)
    keys = " AND ".join(f"{aliases[0]}.k = {a}.k" for a in aliases[1:])
    time = f"greatest({', '.join(f'{a}.ts' for a in aliases)})"
    text = f"SELECT {selected} FROM {sources} WHERE {keys} {behind.format(time=time)}".rstrip()
    return bind_query(name, text, {stream.name: stream for stream in STREAMS})
