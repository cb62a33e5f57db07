"""A query that comes with history: its new rows meet older ones that a group still has."""

from __future__ import annotations

import random

import pyarrow as pa
import pytest

from anabranch.engine.local_driver import LocalRun
from anabranch.engine.settings import Settings
from anabranch.plan.logical import Query
from anabranch.testing.stream_model import accepted_rows, expected_rows, scratch
from tests.queries.generated_groups import STREAMS, A, B, bound, rows_of
from tests.support.oracle_check import check_rows

BASE = "SELECT a.id AS x, b.id AS y FROM a [RANGE 5 SECONDS] a, b [RANGE 5 SECONDS] b WHERE a.k = b.k"
NARROW = BASE.replace("b [RANGE 5", "b [RANGE 2") + " AND a.v > 0"
CAME = 3


@pytest.mark.parametrize("restarts", [False, True])
def test_new_rows_meet_older_ones(restarts: bool) -> None:
    rng = random.Random(4)
    batches = [{name: rows_of(rng, name, 2 * n, 12) for name in STREAMS} for n in range(7)]
    models = accepted_rows((A, B), batches)
    settings = Settings(sites=2, slots=2, sharing="open")

    def right(query: Query, end: int | None) -> pa.Table:
        tables = {stream: model.rows_for(query, 0, end) for stream, model in models.items()}
        return expected_rows(query, (A, B), tables)

    with scratch() as root:
        run = LocalRun(root, (A, B), [bound(BASE, "base")], settings=settings)
        sinks = run.sinks
        for number, rows in enumerate(batches):
            if number == CAME:
                run.add("with", NARROW, history=True)
                run.add("without", NARROW)
            if restarts and number == CAME + 2:
                sinks = dict(run.sinks)
                run.close()
                queries = [bound(BASE, "base"), bound(NARROW, "with"), bound(NARROW, "without")]
                run = LocalRun(root, (A, B), queries, settings=settings, sinks=sinks)
            run.batch(rows)
        run.close()
    query = bound(NARROW, "with")
    before = right(query, CAME + 1)
    assert before.num_rows
    check_rows(pa.concat_tables([before, run.results("with")]), right(query, None), what="with history")
    assert run.results("with").num_rows > run.results("without").num_rows
