"""Nasty inputs 3, 10 and 22 under every router: each group of rows that belongs together is found once."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pytest

from anabranch.adapt.boundary.boundary_state import BoundaryState
from anabranch.adapt.boundary.decider import AdaptiveDecider
from anabranch.adapt.boundary.decisions import Decisions
from anabranch.adapt.boundary.observed import Observed
from anabranch.adapt.routing.hot_keys import HotKeys
from anabranch.adapt.routing.spreadable import spreadable
from anabranch.engine.local_driver import LocalRun
from anabranch.engine.local_ingest import mix_longs
from anabranch.engine.settings import Settings
from anabranch.exchange.split_router import HotKey
from anabranch.language.flow import bind_query
from anabranch.plan.logical import Column, Stream
from anabranch.testing.stream_model import expected_rows, scratch
from tests.support.oracle_check import check_rows

NAMES = "abcdef"
COLUMNS = (Column("id", "bigint"), Column("k", "bigint"), Column("v", "double"), Column("ts", "timestamp"))
STREAMS = tuple(Stream(name, COLUMNS, "ts") for name in NAMES)
NEAR = "abs({0}.v - {1}.v) <= 0.25"
SAME = {"hash": "{0}.k = {1}.k", "split": "{0}.k = {1}.k", "aligned": NEAR, "coordinated": NEAR}
"""By router, a condition that holds for rows of equal keys."""


class AlwaysHot(AdaptiveDecider):
    """Spreads the rows of one key over some partitions, from the first boundary on."""

    def decide(self, state: BoundaryState, observed: Observed) -> tuple[BoundaryState, Decisions]:
        state, decisions = super().decide(state, observed)
        (address,) = mix_longs(np.array([7])).tolist()
        lanes = tuple(
            next(iter(owned)) for owned in decisions.partition_map.partitions_by_site() if list(owned)
        )
        keys = (HotKey(address, group.states, None, lanes) for group in spreadable(observed.joins))
        return replace(state, hot=HotKeys(tuple(keys))), decisions


def rows(keys: np.ndarray, times: np.ndarray, first: int) -> pa.Table:
    ids = first + np.arange(len(keys))
    columns = {"id": pa.array(ids), "k": pa.array(keys), "v": pa.array(keys.astype(float))}
    return pa.table(columns | {"ts": pa.array(times).cast(pa.timestamp("us"))})


def text_of(router: str, references: int, *, beside: str = "") -> str:
    names = NAMES[:references]
    columns = ", ".join(f"{name}.id AS {name}" for name in names)
    refs = ", ".join(f"{name} [RANGE 2 SECONDS]" for name in names)
    # Where no key spreads a join, every second edge is an equality.
    kinds = [SAME["hash" if i % 2 else router] for i in range(references - 1)]
    same = " AND ".join(kind.format(x, y) for kind, (x, y) in zip(kinds, pairwise(names), strict=True))
    return f"SELECT {columns} FROM {refs} WHERE {same}{beside}"


def results_of(
    router: str, text: str, batches: list[Mapping[str, pa.Table]], *, sites: int, oracle: bool = True
) -> pa.Table:
    """Run it, and compare it with the oracle."""
    query = bind_query("q", text, {s.name: s for s in STREAMS})
    used = [s for s in STREAMS if s.name in {ref.stream for ref in query.refs}]
    decider = AlwaysHot() if router == "split" else None
    with scratch() as root:
        routing = router if router in ("aligned", "coordinated") else "auto"
        settings = Settings(sites=sites, slots=2, quota_pairs=1 << 40, routing=routing)
        run = LocalRun(root, used, [query], settings=settings, decider=decider)
        for batch in batches:
            run.batch(batch)
        run.drain()
        found = run.results("q")
        run.close()
    if oracle:
        tables = {s.name: pa.concat_tables(batch[s.name] for batch in batches) for s in used}
        check_rows(found, expected_rows(query, STREAMS, tables), what=f"{router}, {sites} sites: {text}")
    return found


@pytest.mark.parametrize("router", list(SAME))
def test_a_thousand_rows_of_one_key_and_time_on_each_side_are_a_million_pairs(router: str) -> None:
    batches = []
    for number in range(4):
        same = np.full(250, 7), np.full(250, 1_000_000)
        batches.append({name: rows(*same, first=250 * number) for name in "ab"})
    found = results_of(router, text_of(router, 2), batches, sites=4, oracle=False)
    pairs = found.column("a").to_numpy() * 1000 + found.column("b").to_numpy()
    assert len(pairs) == 1_000_000
    assert np.array_equal(np.sort(pairs), np.arange(1_000_000))


@pytest.mark.parametrize("router", list(SAME))
@pytest.mark.parametrize(("references", "sites"), [(3, 1), (4, 7), (5, 2), (6, 7)])
def test_wide_joins_with_or_give_what_the_oracle_gives(router: str, references: int, sites: int) -> None:
    draw = np.random.default_rng(references)
    beside = " AND (a.id < b.id OR b.v > c.v) AND NOT (a.id = c.id)"
    batches, size = [], 4 if references < 6 else 3
    for number in range(3):  # no row is late: every batch is later than the one before
        batch = {}
        for name in NAMES[:references]:
            times = 1_000_000 * number + np.sort(draw.integers(0, 1_000_000, size))
            batch[name] = rows(draw.choice((7, 7, 8), size), times, first=size * number)
        batches.append(batch)
    assert results_of(router, text_of(router, references, beside=beside), batches, sites=sites).num_rows


@pytest.mark.parametrize("router", list(SAME))
def test_nine_rows_in_ten_on_one_key_and_fan_out(router: str) -> None:
    draw = np.random.default_rng(5)
    batches = []
    for number in range(4):
        batch = {}
        for name in "ab":
            keys = np.where(draw.random(120) < 0.9, 7, draw.integers(8, 100, 120))
            times = 1_000_000 * number + np.sort(draw.integers(0, 1_000_000, 120))
            batch[name] = rows(keys, times, first=120 * number)
        batches.append(batch)
    found = results_of(router, text_of(router, 2), batches, sites=7)
    pairs = found.column("a").to_numpy() * 10_000 + found.column("b").to_numpy()
    assert len(np.unique(pairs)) == len(pairs) > 60_000


GROUPS = {
    "rows": "SELECT k, COUNT(*) AS n, SUM(id) AS s, MAX(v) AS most FROM a [RANGE 2 SECONDS] GROUP BY k",
    "windows": "SELECT k, window.end AS until, COUNT(*) AS n, SUM(id) AS s FROM a "
    "GROUP BY k, window(ts, '1 second')",
    "joined": "SELECT a.k AS k, COUNT(*) AS n, MAX(b.id) AS most FROM a [RANGE 2 SECONDS], "
    "b [RANGE 1 SECOND], c [RANGE 1 SECOND] WHERE a.k = b.k AND b.k = c.k AND (a.id < b.id OR b.v > c.v) "
    "GROUP BY a.k",
}


@pytest.mark.parametrize("sites", [2, 7])
@pytest.mark.parametrize("name", list(GROUPS))
def test_hot_groups_of_one_time_and_of_nine_rows_in_ten_give_what_the_oracle_gives(
    name: str, sites: int
) -> None:
    draw = np.random.default_rng(6)
    size = 12 if name == "joined" else 250
    query = bind_query("q", GROUPS[name], {s.name: s for s in STREAMS})
    used = [s for s in STREAMS if s.name in {ref.stream for ref in query.refs}]
    batches = []
    for number in range(4):
        keys = np.where(draw.random(size) < (1.0 if number < 2 else 0.9), 7, draw.integers(8, 20, size))
        times = 1_000_000 * number + (0 if number < 2 else np.sort(draw.integers(0, 1_000_000, size)))
        batches.append({s.name: rows(keys, np.full(size, 0) + times, first=size * number) for s in used})
    with scratch() as root:
        run = LocalRun(root, used, [query], settings=Settings(sites=sites, slots=2), decider=AlwaysHot())
        for batch in batches:
            run.batch(batch)
        hot = run.loop._state.hot.keys
        run.end_of_input()
        found = run.results("q")
        run.close()
    assert hot
    tables = {s.name: pa.concat_tables(batch[s.name] for batch in batches) for s in used}
    check_rows(found, expected_rows(query, STREAMS, tables), what=f"{name}, {sites} sites")
