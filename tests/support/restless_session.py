"""Small sessions made from a number, dense enough that a wrong track shows in one of the first.

The generated sessions (`generated`) search widely: types, predicates, broken rows. These search where plans
and sites change: every query joins three or four streams on one key, every batch has results, rows come out
of order, blocks are merged in every batch, and a restart changes the number of sites.
"""

from __future__ import annotations

import random

import pyarrow as pa

from anabranch.engine.settings import Settings
from anabranch.language.flow import bind_query
from anabranch.plan.logical import Column, Query, Stream
from tests.support.generated import TOGETHER, Batch, Case, Phase
from tests.support.oracle_check import check_case
from tests.support.restless import RestlessDecider

START_US = 1_700_000_000_000_000
LATENESS_US = 6
STEP_US = 8
"""How far event time goes on in a batch."""
_COLUMNS = (Column("id", "int"), Column("k", "bigint"), Column("ts", "timestamp"))
STREAMS = tuple(Stream(name, _COLUMNS, "ts", LATENESS_US) for name in "abcd")


def check_restless_session(seed: int, *, batches: int = 10) -> None:
    """Run the session of a number while everything about it changes; raise where the oracle disagrees."""
    check_case(session_of(seed, batches=batches), RestlessDecider(seed))


def session_of(seed: int, *, batches: int = 10) -> Case:
    """A session with a join of three or four streams, another of some of them, and a restart."""
    draw = random.Random(seed)
    queries = (
        _join(draw, "q", draw.choice(("abc", "abcd", "abc"))),
        _join(draw, "r", draw.choice(("ac", "cba", "bd"))),
    )
    data = [_batch(draw, number) for number in range(batches)]
    cut = draw.randint(1, batches - 1)
    phases = tuple(Phase(queries, _settings(draw), tuple(part)) for part in (data[:cut], data[cut:]))
    return Case(STREAMS, phases, fan_in=2, plan_seed=draw.randint(0, 20), together_rows=draw.choice(TOGETHER))


def _join(draw: random.Random, name: str, aliases: str) -> Query:
    sources = ", ".join(f"{a} [RANGE {draw.choice((9, 21, 40))} MICROSECONDS]" for a in aliases)
    keys = " AND ".join(f"{aliases[0]}.k = {a}.k" for a in aliases[1:])
    outputs = ", ".join(f"{a}.id AS {a}" for a in aliases)
    return bind_query(
        name, f"SELECT {outputs} FROM {sources} WHERE {keys}", {stream.name: stream for stream in STREAMS}
    )


def _settings(draw: random.Random) -> Settings:
    sites, slots = draw.choice((2, 3, 5)), draw.choice((1, 2, 3))
    return Settings(sites=sites, slots=slots, max_blocks=draw.choice((0, 1)))


def _batch(draw: random.Random, number: int) -> Batch:
    return {stream.name: _rows(draw, number) for stream in STREAMS}


def _rows(draw: random.Random, number: int) -> pa.Table:
    size = draw.choice((0, 4, 6, 8))
    begun = STEP_US * number
    times = [START_US + max(0, begun + draw.randint(-LATENESS_US - 2, STEP_US)) for _ in range(size)]
    return pa.table(
        {
            "id": pa.array(range(100 * number, 100 * number + size), pa.int32()),
            "k": pa.array([draw.randrange(5) for _ in range(size)], pa.int64()),
            "ts": pa.array(times, pa.int64()).cast(pa.timestamp("us")),
        }
    )
