"""Keys that are spread over the sites, and taken back, give the same results as if they had stayed whole."""

from __future__ import annotations

import random
from unittest import mock

import numpy as np
import pyarrow as pa
import pytest

from anabranch.adapt.routing import hot_keys
from anabranch.engine.local_driver import LocalRun
from anabranch.engine.local_ingest import mix_longs
from anabranch.engine.settings import Settings
from anabranch.engine.task.arrival import heavy_keys
from anabranch.language.flow import bind_query
from anabranch.testing.stream_model import accepted_rows, expected_rows, scratch
from tests.engine.stations import names_of
from tests.engine.theta_joins import STREAMS, random_batches
from tests.support.oracle_check import check_rows
from tests.support.restarted_session import check_restarted
from tests.support.restless import RestlessDecider

KEYS = range(4)
"""Of the rows."""
TEXTS = {
    "pair": "SELECT a.id AS a, b.id AS b FROM a [RANGE 2 SECONDS], b [RANGE 1 SECONDS] WHERE a.k = b.k",
    "three": (
        "SELECT a.id AS a, c.id AS c, d.id AS d FROM a [RANGE 2 SECONDS], c [RANGE 1 SECONDS], "
        "d [RANGE 3 SECONDS] WHERE a.k = c.k AND c.k = d.k AND a.x < d.x"
    ),
    "twice": (
        "SELECT l.id AS l, r.id AS r, f.id AS f FROM e [RANGE 2 SECONDS] AS l, e [RANGE 1 SECONDS] AS r, "
        "f [RANGE 2 SECONDS] WHERE l.k = r.k AND r.k = f.k AND l.id < r.id"
    ),
    "grouped": (
        "SELECT a.id AS id, COUNT(*) AS n FROM a [RANGE 2 SECONDS], b [RANGE 1 SECONDS] "
        "WHERE a.k = b.k GROUP BY a.id"
    ),
}


def check_session(seed: int) -> int:
    """Let keys become hot and cool at random and compare with the oracle; returns the results."""
    draw = random.Random(seed)
    queries = [bind_query(name, text, names_of(STREAMS)) for name, text in TEXTS.items()]
    batches = random_batches(draw, 6, most=10)
    settings = Settings(
        sites=draw.choice((2, 7)), slots=draw.choice((1, 2, 3)), max_blocks=draw.choice((0, 1, 8))
    )
    addresses = mix_longs(np.array(KEYS)).tolist()
    decider = RestlessDecider(seed, waits=draw.random() < 0.5, keys=addresses)
    return check_restarted(STREAMS, queries, batches, settings=settings, decider=decider, seed=seed)


@pytest.mark.parametrize("first", range(0, 6, 3))
def test_keys_that_become_hot_and_cool_change_no_result(first: int) -> None:
    assert sum(check_session(seed) for seed in range(first, first + 3)) > 100


@pytest.mark.slow
def test_thousands_of_sessions_with_hot_keys_give_what_the_oracle_gives() -> None:
    for seed in range(1_000, 3_000):
        check_session(seed)


def crowd(draw: np.random.Generator, rows: int, second: int, *, hot: float) -> pa.Table:
    keys = np.where(draw.random(rows) < hot, 7, draw.integers(0, 5_000, rows))
    times = second * 1_000_000 + draw.integers(0, 1_000_000, rows)
    numbers = pa.array(draw.random(rows))
    columns = {"id": pa.array(np.arange(rows)), "k": pa.array(keys), "x": numbers, "y": numbers}
    return pa.table(columns | {"ts": pa.array(times).cast(pa.timestamp("us"))})


def test_a_key_with_half_of_the_rows_is_found_spread_and_taken_back() -> None:
    draw = np.random.default_rng(4)
    query = bind_query("pair", TEXTS["pair"], names_of(STREAMS))
    told = []
    with (
        scratch() as root,
        mock.patch.object(hot_keys, "LEAST_WORK", 100),
        mock.patch.object(heavy_keys, "LEAST_ROWS", 20),
    ):
        run = LocalRun(root, STREAMS, [query], settings=Settings(sites=4, slots=1))
        batches = []
        for second in range(14):
            hot = 0.5 if second < 5 else 0.0
            batches.append({name: crowd(draw, 300, 10 + second, hot=hot) for name in "ab"})
            summary = run.batch(batches[-1])
            told += [(second, e.kind) for e in summary.events if e.kind in ("key_spread", "key_cooled")]
        results = run.results("pair")
        run.close()
    assert [kind for _, kind in told] == ["key_spread", "key_cooled"], told
    (spread, _), (cooled, _) = told
    assert spread <= 2
    assert 5 <= cooled <= 10
    models = accepted_rows(STREAMS[:2], batches)
    tables = {name: model.rows_for(query) for name, model in models.items()}
    check_rows(results, expected_rows(query, STREAMS, tables), what="hot key")


def test_even_keys_are_never_spread() -> None:
    draw = np.random.default_rng(4)
    query = bind_query("pair", TEXTS["pair"], names_of(STREAMS))
    with scratch() as root, mock.patch.object(hot_keys, "LEAST_WORK", 0):
        run = LocalRun(root, STREAMS, [query], settings=Settings(sites=4, slots=1))
        for second in range(5):
            summary = run.batch({name: crowd(draw, 300, 10 + second, hot=0.0) for name in "ab"})
            assert not [e for e in summary.events if e.kind == "key_spread"]
        run.close()
