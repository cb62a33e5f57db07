"""A group that was formed for a wide query goes on narrower, or not at all, when that query has gone."""

from __future__ import annotations

from unittest.mock import patch

import numpy as np
import pyarrow as pa
import pytest

from anabranch.adapt.sharing import group_worth
from anabranch.engine.local_driver import LocalRun
from anabranch.engine.settings import Settings
from anabranch.language.flow import bind_query
from anabranch.plan.logical import Column, Stream
from anabranch.testing.stream_model import accepted_rows, expected_rows, scratch
from tests.support.oracle_check import check_rows

COLUMNS = (Column("id", "bigint"), Column("k", "bigint"), Column("v", "bigint"), Column("ts", "timestamp"))
STREAMS = {name: Stream(name, COLUMNS, "ts", 0) for name in "ab"}
ROWS = 1_500
JOIN = "SELECT a.id AS x, b.id AS y FROM a [RANGE 4 SECONDS], b [RANGE 4 SECONDS] WHERE a.k = b.k"
LOW, HIGH = f"{JOIN} AND a.v < 3 AND b.v < 3", f"{JOIN} AND a.v >= 997 AND b.v >= 997"
GONE = 3
"""The batch after which the wide query has gone."""
BATCHES = 14


def rows_of(batch: int) -> dict[str, pa.Table]:
    rng = np.random.default_rng(batch)
    times = np.sort(rng.integers(0, 1_000_000, ROWS)) + 1_000_000 * (1_700_000_000 + batch)
    return {
        name: pa.table(
            {
                "id": pa.array(np.arange(ROWS) + ROWS * batch),
                "k": pa.array(rng.integers(0, 100, ROWS)),
                "v": pa.array(rng.integers(0, 1_000, ROWS)),
                "ts": pa.array(times).cast(pa.timestamp("us")),
            }
        )
        for name in STREAMS
    }


@pytest.mark.parametrize(
    ("narrow", "anew"),
    [((LOW, f"{LOW} AND a.v < 2"), True), ((LOW, HIGH), False)],
    ids=["close", "far apart"],
)
def test_members_that_a_wide_query_leaves_behind_run_otherwise(narrow: tuple[str, str], anew: bool) -> None:
    texts = {"wide": JOIN, "one": narrow[0], "two": narrow[1]}
    batches = [rows_of(number) for number in range(BATCHES)]
    # Writing is taken to be slow, so that the group pays beyond doubt as long as somebody wants its results.
    slow = patch.object(group_worth, "RESULT_S", 1e-6)
    with scratch() as root, patch.object(group_worth, "PATIENCE", 2), slow:
        run = LocalRun(
            root,
            tuple(STREAMS.values()),
            [bind_query(name, text, STREAMS) for name, text in texts.items()],
            settings=Settings(sites=1, slots=1, sharing="always", rebalance="off"),
        )
        pairs = []
        for number, rows in enumerate(batches):
            if number == GONE:
                run.drop("wide")
            pairs.append(sum(site.pairs for r in run.batch(rows).reports for site in r.sites))
        groups = run.loop.catalog.groups
        run.close()
    told = {str(e.kind): e for e in run.record.events}
    assert told["group_dissolved"].batch > GONE
    assert told["group_dissolved"].data["anew"] is anew
    assert told["group_dissolved"].data["alone_ms"] < told["group_dissolved"].data["group_ms"]
    assert "group_over" in told
    assert len(groups) == anew
    assert pairs[-1] < pairs[GONE] / 100, "nobody matches rows any more that no member wants"
    for name, text in list(texts.items())[1:]:
        query = bind_query(name, text, STREAMS)
        models = accepted_rows(tuple(STREAMS.values()), batches)
        tables = {stream: model.rows_for(query) for stream, model in models.items()}
        check_rows(run.results(name), expected_rows(query, tuple(STREAMS.values()), tables), what=name)
