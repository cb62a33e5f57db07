"""Groups that are spread over the sites, and taken back, give the same results as whole ones."""

from __future__ import annotations

import random
from unittest import mock

import numpy as np
import pyarrow as pa
import pytest

from anabranch.adapt.routing import hot_keys
from anabranch.engine.local_driver import LocalRun
from anabranch.engine.settings import Settings
from anabranch.engine.task import hot_groups
from anabranch.engine.task.arrival import heavy_keys
from anabranch.exchange.split_router import HotKey
from anabranch.language.flow import bind_query
from anabranch.operators.group.answered_share import EVERYTHING
from anabranch.plan.aggregate import window_node
from anabranch.plan.inputs import layout_of
from anabranch.plan.logical import Query
from anabranch.testing.stream_model import accepted_rows, expected_rows, scratch
from tests.engine.stations import names_of
from tests.engine.theta_joins import STREAMS, random_batches
from tests.support.oracle_check import check_rows
from tests.support.restarted_session import check_restarted
from tests.support.restless import RestlessDecider

TEXTS = {
    "each": (
        "SELECT k, COUNT(*) AS n, SUM(id) AS s, MIN(x) AS least, MAX(id) AS most FROM a [RANGE 2 SECONDS] "
        "GROUP BY k"
    ),
    "all": "SELECT COUNT(*) AS n, SUM(id) AS s FROM a [RANGE 1 SECONDS]",
    "different": "SELECT DISTINCT k, id FROM b [RANGE 2 SECONDS]",
    "tumbling": (
        "SELECT k, window.end AS until, COUNT(*) AS n, MAX(id) AS most FROM a "
        "GROUP BY k, window(ts, '2 seconds')"
    ),
    "hopping": (
        "SELECT window.end AS until, COUNT(*) AS n, COUNT(DISTINCT id) AS different FROM b "
        "GROUP BY window(ts, '2 seconds', '1 second')"
    ),
    "sessions": "SELECT k, COUNT(*) AS n, MIN(id) AS least FROM c GROUP BY k, session_window(ts, '1 second')",
    "joined": (
        "SELECT b.k AS k, COUNT(*) AS n, MAX(a.id) AS most FROM a [RANGE 2 SECONDS], b [RANGE 1 SECONDS] "
        "WHERE a.id = b.id GROUP BY b.k"
    ),
    "pairs": (
        "SELECT DISTINCT a.k AS k FROM a [RANGE 2 SECONDS], b [RANGE 1 SECONDS] "
        "WHERE a.id = b.id AND a.x < b.x"
    ),
    "text": (
        "SELECT CAST(k AS STRING) AS k, COUNT(*) AS n FROM d [RANGE 3 SECONDS] GROUP BY CAST(k AS STRING)"
    ),
}


_PAIR = "FROM a [RANGE 2 SECONDS], b [RANGE 1 SECONDS] WHERE a.id = b.id"


def queries_of(texts: dict[str, str]) -> list[Query]:
    return [bind_query(name, text, names_of(STREAMS)) for name, text in texts.items()]


MEMBERS = {
    **{f"each{i}": TEXTS["each"].replace("GROUP", f"WHERE id >= {i} GROUP") for i in range(3)},
    **{f"tumbling{i}": TEXTS["tumbling"].replace("GROUP", f"WHERE k <= {i} GROUP") for i in range(3)},
    **{f"joined{i}": TEXTS["joined"].replace("GROUP", f"AND b.id >= {i} GROUP") for i in range(3)},
    **{f"pair{i}": f"SELECT a.id AS a, b.x AS x {_PAIR} AND a.id >= {i}" for i in range(3)},
}
"""Queries that are answered by one, and split: by a wider filter that all of them share."""


def check_session(seed: int, texts: dict[str, str] = TEXTS, *, sharing: str = "off") -> tuple[int, int]:
    """Let groups become hot and cool at random and compare with the oracle; returns results, hot groups."""
    draw = random.Random(seed)
    queries = queries_of(texts)
    batches = random_batches(draw, 6, most=10)
    settings = Settings(
        sites=draw.choice((2, 7)),
        slots=draw.choice((1, 2, 3)),
        max_blocks=draw.choice((0, 1, 8)),
        sharing=sharing,
    )
    decider = RestlessDecider(seed, waits=draw.random() < 0.5, keys=[0])
    hot = list[int]()

    def watch(run: LocalRun) -> None:
        assert (len(run.loop.catalog.layout.queries) < len(queries)) == (sharing != "off")
        hot.append(len(run.loop._state.hot.keys))

    with mock.patch.object(heavy_keys, "LEAST_ROWS", 1):
        results = check_restarted(
            STREAMS, queries, batches, settings=settings, decider=decider, seed=seed, watch=watch
        )
    return results, sum(hot)


def test_groups_that_become_hot_and_cool_change_no_result() -> None:
    found = [check_session(seed) for seed in range(3)]
    assert all(results > 100 and hot > 20 for results, hot in found), found


def test_members_of_a_group_of_queries_whose_groups_and_keys_are_hot_get_what_the_oracle_gives() -> None:
    found = [check_session(seed, MEMBERS, sharing="always") for seed in range(20, 22)]
    assert all(results > 100 and hot > 5 for results, hot in found), found


@pytest.mark.slow
def test_hundreds_of_sessions_with_hot_groups_give_what_the_oracle_gives() -> None:
    for seed in range(1_000, 1_400):
        check_session(seed)


def test_an_owner_that_answers_for_hot_groups_too_is_found_out() -> None:
    left = mock.patch("anabranch.engine.task.track_run.left_to_lanes", return_value=EVERYTHING)
    with left, pytest.raises(AssertionError, match="SELECT"):
        check_session(0)


def test_windows_of_group_by_are_answered_by_the_owner_and_rows_by_lanes() -> None:
    layout = layout_of(queries_of({name: TEXTS[name] for name in ("each", "tumbling", "joined")}), {})
    nodes = {}
    for routed in layout.queries:
        assert routed.query.grouping is not None
        nodes[routed.query.name] = window_node(layout, routed, routed.query.grouping)
    keys = [HotKey(5, (node.state,), None, (1, 2)) for node in nodes.values()]
    assert hot_groups.left_to_lanes(keys, nodes["tumbling"]) is EVERYTHING
    assert hot_groups.left_to_lanes(keys, nodes["each"]).hashes == (5,)
    ((share, homes),) = hot_groups.lane_shares(keys, nodes["joined"].state, 2)
    assert (share.hashes, share.lane, share.lanes) == ((5,), 1, 2)
    assert list(homes) == [0]


def crowd(draw: np.random.Generator, rows: int, second: int, *, hot: float) -> pa.Table:
    keys = np.where(draw.random(rows) < hot, 7, draw.integers(0, 5_000, rows))
    times = second * 1_000_000 + draw.integers(0, 1_000_000, rows)
    numbers = pa.array(draw.random(rows))
    columns = {"id": pa.array(np.arange(rows)), "k": pa.array(keys), "x": numbers, "y": numbers}
    return pa.table(columns | {"ts": pa.array(times).cast(pa.timestamp("us"))})


@pytest.mark.parametrize("name", ["each", "tumbling", "different"])
def test_a_group_with_half_of_the_rows_is_found_spread_and_taken_back(name: str) -> None:
    draw = np.random.default_rng(4)
    texts = {**TEXTS, "different": "SELECT DISTINCT k FROM a [RANGE 2 SECONDS]"}
    (query,) = queries_of({name: texts[name]})
    told, sites = [], []
    with (
        scratch() as root,
        mock.patch.object(hot_keys, "LEAST_WORK", 100),
        mock.patch.object(heavy_keys, "LEAST_ROWS", 20),
    ):
        run = LocalRun(root, STREAMS, [query], settings=Settings(sites=4, slots=1))
        batches = []
        for second in range(14):
            hot = 0.5 if second < 6 else 0.0
            batches.append({"a": crowd(draw, 600, 10 + second, hot=hot)})
            summary = run.batch(batches[-1])
            told += [(second, e.kind) for e in summary.events if e.kind in ("key_spread", "key_cooled")]
            sites.append([site.rows for report in summary.reports for site in report.sites])
        run.end_of_input()
        results = run.results(name)
        run.close()
    assert [kind for _, kind in told] == ["key_spread", "key_cooled"], told
    (spread, _), (cooled, _) = told
    assert spread <= 2
    assert 6 <= cooled <= 12
    if name == "tumbling":  # of others, only answers are spread
        assert max(sites[0]) > 1.8 * max(sites[5]), sites
    models = accepted_rows(STREAMS[:1], batches)
    tables = {name: model.rows_for(query) for name, model in models.items()}
    check_rows(results, expected_rows(query, STREAMS, tables), what="hot group")


def test_even_groups_are_never_spread() -> None:
    draw = np.random.default_rng(4)
    with scratch() as root, mock.patch.object(hot_keys, "LEAST_WORK", 0):
        run = LocalRun(
            root,
            STREAMS,
            queries_of({name: TEXTS[name] for name in ("each", "tumbling")}),
            settings=Settings(sites=4, slots=1),
        )
        for second in range(5):
            summary = run.batch({"a": crowd(draw, 300, 10 + second, hot=0.0)})
            assert not [e for e in summary.events if e.kind == "key_spread"]
        run.close()
