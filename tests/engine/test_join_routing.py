"""What is told of joins whose rows are spread: what was predicted agrees with what was measured."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from unittest import mock

import numpy as np
import pyarrow as pa
import pytest

from anabranch.adapt.routing import hot_keys
from anabranch.adapt.routing.join_routing import JoinRouting
from anabranch.cli.inspect.why import routing_of
from anabranch.engine.json_log import JsonLog
from anabranch.engine.local_driver import LocalRun
from anabranch.engine.settings import Settings
from anabranch.engine.task.arrival import heavy_keys
from anabranch.language.flow import bind_query
from anabranch.state import PosixStorage
from tests.engine.stations import names_of
from tests.engine.theta_joins import STREAMS

PAIR = (
    "SELECT a.id AS a, b.id AS b FROM a [RANGE 2 SECONDS], b [RANGE 1 SECONDS] "
    "WHERE abs(a.x - b.x) <= 0.01 AND b.id < 200"
)
CHAIN = (
    "SELECT a.id AS a, b.id AS b, c.id AS c FROM a [RANGE 2 SECONDS], b [RANGE 2 SECONDS], "
    "c [RANGE 2 SECONDS] WHERE abs(a.x - b.x) <= 0.002 AND b.k = c.k"
)
EQUAL = "SELECT a.id AS a, b.id AS b FROM a [RANGE 1 SECONDS], b [RANGE 1 SECONDS] WHERE a.k = b.k"
ROWS = 400


def steady_rows(draw: np.random.Generator, second: int, *, hot: float = 0.0) -> pa.Table:
    """A second with as many rows as any other."""
    times = second * 1_000_000 + np.sort(draw.integers(0, 1_000_000, ROWS))
    keys = np.where(draw.random(ROWS) < hot, 7, draw.integers(0, 2_000, ROWS))
    columns = {"id": pa.array(np.arange(ROWS)), "k": pa.array(keys)}
    columns |= {name: pa.array(draw.random(ROWS)) for name in "xy"}
    return pa.table(columns | {"ts": pa.array(times).cast(pa.timestamp("us"))})


def told_of(
    root: Path, text: str, *, routing: str, sites: int, seconds: int, hot: float = 0.0
) -> Iterator[JoinRouting]:
    """What progress tells of a join, batch by batch."""
    draw = np.random.default_rng(3)
    query = bind_query("q", text, names_of(STREAMS))
    settings = Settings(sites=sites, slots=1, routing=routing, rebalance="off")
    run = LocalRun(root, STREAMS, [query], settings=settings, listeners=[JsonLog(PosixStorage(root))])
    for second in range(seconds):
        run.batch({ref.stream: steady_rows(draw, 10 + second, hot=hot) for ref in query.refs})
        told = run.record.progress[-1]
        assert told["routing"] == [join.to_json() for join in told.routing]
        yield from told.routing
    run.close()


@pytest.mark.parametrize(
    ("text", "routing", "sites"),
    [(PAIR, "aligned", 6), (CHAIN, "aligned", 4), (PAIR, "coordinated", 6), (CHAIN, "coordinated", 9)],
)
def test_copies_are_as_many_as_equations_2_and_4_say(
    tmp_path: Path, text: str, routing: str, sites: int
) -> None:
    told = list(told_of(tmp_path, text, routing=routing, sites=sites, seconds=16))[-8:]
    assert {(join.query, join.router, join.before) for join in told} == {("q", routing, None)}
    measured = sum(join.measured or 0.0 for join in told)
    assert measured > 0
    assert sum(join.predicted or 0.0 for join in told) / measured == pytest.approx(1, abs=0.1)
    if routing == "aligned":
        assert {join.master for join in told} <= set("abc")
        assert all(join.segment_s for join in told)
    else:
        # Every row is stored at the places of its unit, and joined rows go on beside that.
        for join in told:
            assert join.replication == pytest.approx(join.cover, rel=0.2)
    line = routing_of(tmp_path, "q")
    assert line is not None
    assert f"routing in batch 15: {routing} over" in line


def test_hot_keys_are_told_with_their_copies(tmp_path: Path) -> None:
    with mock.patch.object(hot_keys, "LEAST_WORK", 100), mock.patch.object(heavy_keys, "LEAST_ROWS", 20):
        told = list(told_of(tmp_path, EQUAL, routing="auto", sites=4, seconds=6, hot=0.5))[1:]
    assert {(join.router, join.hot_keys, join.places) for join in told} == {("split", 1, 4)}
    for join in told:
        assert join.predicted == join.measured
        # Half of the rows are of the key; of one stream they go to all four sites.
        assert join.replication == pytest.approx(1 + 0.5 * 0.5 * 3, abs=0.15)


def test_a_join_at_one_site_is_not_spread(tmp_path: Path) -> None:
    assert not list(told_of(tmp_path, PAIR, routing="hash", sites=4, seconds=2))
