"""Plans are chosen by what predicates let pass, not only by how keys meet."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from anabranch.engine.local_driver import LocalRun
from anabranch.engine.settings import Settings
from anabranch.language.flow import bind_query
from anabranch.plan.logical import Column, Stream
from anabranch.plan.tree import Join, Plan, parse_plan

COLUMNS = (Column("k", "bigint"), Column("x", "double"), Column("ts", "timestamp"))
STREAMS = tuple(Stream(name, COLUMNS, "ts", 0) for name in "abc")
ROWS, BATCHES, KEYS = 300, 12, 30


def batch(number: int) -> dict[str, pa.Table]:
    draw = np.random.default_rng(number)
    times = 1_000_000 * number + np.arange(ROWS) * 1_000
    return {
        stream.name: pa.table(
            {
                "k": draw.integers(0, KEYS, ROWS),
                "x": draw.random(ROWS),
                "ts": pa.array(times, pa.timestamp("us", "UTC")),
            }
        )
        for stream in STREAMS
    }


def starts_with(plan: Plan, pair: str) -> bool:
    """Whether the two references meet before any of them meets another."""
    if isinstance(plan, Join):
        return frozenset(plan.aliases) == frozenset(pair) or any(
            starts_with(side, pair) for side in (plan.left, plan.right)
        )
    orders = getattr(plan, "orders", ())
    return bool(orders) and all(pair[1] == order[1] for order in orders if order[0] == pair[0])


@pytest.mark.parametrize(
    "where",
    [
        pytest.param("a.k = b.k AND b.k = c.k AND {0}.x + {1}.x > 1.95", id="beside a key"),
        pytest.param("{0}.x + {1}.x > 1.95 AND {1}.k = {2}.k", id="instead of a key"),
    ],
)
@pytest.mark.parametrize("order", ["abc", "bca", "cab"])
def test_what_a_predicate_leaves_is_joined_first(where: str, order: str, tmp_path: Path) -> None:
    windows = ", ".join(f"{alias} [RANGE 3 SECONDS]" for alias in "abc")
    query = bind_query(
        "q",
        f"SELECT a.ts AS a, b.ts AS b, c.ts AS c FROM {windows} WHERE {where.format(*order)}",
        {stream.name: stream for stream in STREAMS},
    )
    run = LocalRun(tmp_path, STREAMS, [query], settings=Settings(sites=1, slots=1))
    for number in range(BATCHES):
        run.batch(batch(number))
    plan = parse_plan(run.loop.tracks.plans["q"][0])
    run.close()
    assert starts_with(plan, order[:2]), plan
